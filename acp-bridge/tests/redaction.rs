//! No secret of the corpus survives in any place, ordinary texts stay as they are, and redaction is stable on any input.

#![allow(clippy::unwrap_used)]

use acp_bridge::presentation::{MARKER, Redactor, present};
use acp_bridge::prompt::Prompt;
use proptest::prelude::*;
use serde_json::json;
use serde_json::value::to_raw_value;

/// What every secret of the corpus is made of, in letters that each shape allows.
const BODY: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f9a8b7c6d5";
const UPPER: &str = "0A1B2C3D4E5F6071";

/// The texts of a file of `data/`, one a line; `\n`, `\t` and `\\` are a line end, a tab, a backslash.
fn lines(data: &str) -> Vec<String> {
    let unescape = |line: &str| line.split(r"\\").map(|part| part.replace(r"\n", "\n").replace(r"\t", "\t")).collect::<Vec<_>>().join(r"\");
    data.lines().map(unescape).collect()
}

/// Each kind of secret; where its value stands alone, also with the value in quotes.
fn secrets() -> Vec<String> {
    let mut all = Vec::new();
    for shape in lines(include_str!("data/secrets.txt")) {
        let fill = |shape: &str| shape.replace("{32}", &BODY[..32]).replace("{}", BODY).replace("{U}", UPPER);
        all.push(fill(&shape));
        for before in ["=", " ", ": "] {
            let bare = format!("{before}{{}}");
            if !shape.contains("; ") && shape.ends_with(&bare) || shape.contains(&format!("{bare} ")) {
                all.extend(["'", "\""].map(|quote| fill(&shape.replacen(&bare, &format!("{before}{quote}{{}}{quote}"), 1))));
            }
        }
    }
    all
}

/// What can be put around a text.
const QUOTINGS: &[(&str, &str)] = &[("", ""), ("'", "'"), ("\"", "\""), ("\\\"", "\\\""), ("`", "`"), ("$'", "'")];

/// Whether eight bytes in a row of the body are there.
fn survives(text: &str) -> bool {
    [BODY, UPPER].iter().any(|body| {
        let parts: Vec<&[u8]> = body.as_bytes().windows(8).collect();
        text.as_bytes().windows(8).any(|at| parts.contains(&at))
    })
}

/// All that is shown of prompts that have the text everywhere, and whether each is marked.
fn shown(text: &str, redactor: &Redactor) -> (String, bool) {
    let mut out = String::new();
    let mut redacted = true;
    for kind in ["execute", "edit", "fetch", "other"] {
        let params = json!({
            "toolCall": { "kind": kind, "title": text, "rawInput": { "command": text, "cwd": text, "file_path": text, "url": text, "x": text },
                "locations": [{ "path": text }], "content": [{ "type": "diff", "path": text, "newText": text }] },
            "options": [{ "optionId": "a", "name": format!("Yes, don't ask again for `{text}`") }],
            "_meta": { "permission": { "version": 1, "title": text, "description": text } },
        });
        let view = present(&Prompt::read(Some(&to_raw_value(&params).unwrap())).unwrap(), None, redactor);
        redacted &= view.action.redacted;
        out += &format!("{} {} {}\n", view.title, serde_json::to_string(&view.action).unwrap(), view.options[0].name);
    }
    (out, redacted)
}

#[test]
fn no_secret_survives_in_any_place() {
    let redactor = Redactor::default();
    let places = lines(include_str!("data/places.txt"));
    let mut failures = Vec::new();
    let mut count = 0;
    for (kind, secret) in secrets().iter().enumerate() {
        for (at, (place, quoting)) in places.iter().flat_map(|place| QUOTINGS.iter().map(move |quoting| (place, quoting))).enumerate() {
            // Each kind in each place, with each quoting, and each place with each quoting; all of them in a release build.
            let (place_at, quoting_at) = (at / QUOTINGS.len(), at % QUOTINGS.len());
            if cfg!(debug_assertions) && quoting_at != (kind + place_at) % QUOTINGS.len() {
                continue;
            }
            // One quote within the same is no quoting.
            let around = [quoting.0, quoting.1, place.as_str()];
            if ['\'', '"'].iter().any(|quote| {
                around[..2].iter().any(|q| q.contains(*quote)) && (secret.contains(*quote) || place.contains(*quote))
                    || secret.contains(*quote) && place.contains(*quote)
            }) {
                continue;
            }
            count += 1;
            let text = place.replace("{}", &format!("{}{secret}{}", quoting.0, quoting.1));
            let command = redactor.command(&text).map(|shown| shown.text).unwrap_or_default();
            let (all, redacted) = shown(&text, &redactor);
            for (what, result) in
                [("text", redactor.text(&text).text), ("long", redactor.long_text(&text)), ("command", command), ("prompt", all)]
            {
                if survives(&result) {
                    failures.push(format!("{what}: {text:?} -> {result:?}"));
                }
            }
            if !redacted {
                failures.push(format!("not marked: {text:?}"));
            }
        }
    }
    println!("{count} texts");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..failures.len().min(40)].join("\n"));
}

#[test]
fn quoting_hides_nothing() {
    let redactor = Redactor::default();
    for command in lines(include_str!("data/quoted.txt")) {
        let command = command.replace("{}", BODY);
        let shown_command = redactor.command(&command).unwrap();
        assert!(!survives(&shown_command.text) && shown_command.redacted, "{command}: {}", shown_command.text);
        let (all, _) = shown(&command, &redactor);
        assert!(!survives(&all), "{command}: {all}");
        assert_eq!(redactor.command(&shown_command.text).unwrap().text, shown_command.text, "{command}");
    }
    // What a shell would run is not hidden by looking like a value.
    for (command, expected) in [
        ("bash -c 'TOKEN=a; rm -rf ~'", "bash -c 'TOKEN=[redacted]; rm -rf ~'"),
        ("TOKEN=\"a b$(rm -rf ~)\" x", "TOKEN=\"[redacted]$(rm -rf ~)\" x"),
        ("TOKEN=a;rm -rf ~", "TOKEN=[redacted];rm -rf ~"),
        ("x --token \"a$(rm -rf ~)\" y", "x --token \"[redacted]$(rm -rf ~)\" y"),
        ("x --token a$(rm -rf ~) y", "x --token [redacted]$(rm -rf ~) y"),
        ("x --token '$(a)' y", "x --token '[redacted]' y"),
        ("mysql -p\"a`rm -rf ~`\" y", "mysql -p\"[redacted]`rm -rf ~`\" y"),
        ("echo \"a$(rm -rf ~)\" | sudo -S x", "echo \"[redacted]$(rm -rf ~)\" | sudo -S x"),
        ("echo a b; rm -rf ~ | sudo -S x", "echo a b; rm -rf ~ | sudo -S x"),
        ("htpasswd -b f u \"$(rm -rf ~)\"", "htpasswd -b f u \"$(rm -rf ~)\""),
        ("API_KEY = a; rm -rf ~", "API_KEY = [redacted]; rm -rf ~"),
        ("echo 'a token: 'x;rm -rf ~;echo 'y'", "echo 'a token: '[redacted];rm -rf ~;echo 'y'"),
        ("echo \"<password>a$(rm -rf ~)</password>\"", "echo \"<password>[redacted]$(rm -rf ~)</password>\""),
        ("curl -b \"a=b$(rm -rf ~)\" u", "curl -b \"[redacted]$(rm -rf ~)\" u"),
        ("curl -u \"a:b$(rm -rf ~)\" u", "curl -u \"a:[redacted]$(rm -rf ~)\" u"),
        ("curl -H \"Cookie: a=b$(rm -rf ~)\" u", "curl -H \"Cookie: [redacted]$(rm -rf ~)\" u"),
        ("curl \"https://a:b$(reboot)@h\" u", "curl \"https://[redacted]$(reboot)@h\" u"),
        ("curl 'https://h/?token=a'$(rm -rf ~) u", "curl 'https://h/?token=[redacted]'$(rm -rf ~) u"),
        ("curl \"https://h/?token=a$(rm -rf ~)\" u", "curl \"https://h/?token=[redacted]$(rm -rf ~)\" u"),
        ("curl -H \"Authorization: Bearer a$(rm -rf ~)\" u", "curl -H \"Authorization: Bearer [redacted]$(rm -rf ~)\" u"),
        ("x {\"password\":\"a$(rm -rf ~)\"}", "x {\"password\":\"[redacted]$(rm -rf ~)\"}"),
        ("x \"{\\\"password\\\":\\\"a$(rm -rf ~)\\\"}\"", "x \"{\\\"password\\\":\\\"[redacted]$(rm -rf ~)\\\"}\""),
        (
            "echo \"-----BEGIN PRIVATE KEY-----$(rm -rf ~)-----END PRIVATE KEY-----\"",
            "echo \"[redacted]$(rm -rf ~)-----END PRIVATE KEY-----\"",
        ),
        ("x password: [a, $(rm -rf ~)]", "x password: [redacted] $(rm -rf ~)]"),
        ("password = f(\"a\"); rm -rf ~", "password = f(\"[redacted]\"); rm -rf ~"),
        (
            "python -c 'password = f(\"a\"); import os; os.system(\"rm\")'",
            "python -c 'password = f(\"[redacted]\"); import os; os.system(\"rm\")'",
        ),
        ("psql -c \"ALTER USER a PASSWORD 'x'; DROP TABLE b\"", "psql -c \"ALTER USER a PASSWORD '[redacted]'; DROP TABLE b\""),
        ("curl -H 'Authorization: Basic a' u && rm -rf ~", "curl -H 'Authorization: Basic [redacted]' u && rm -rf ~"),
    ] {
        let shown = redactor.command(command).unwrap().text;
        if shown != expected {
            println!("{shown:?} {expected:?}");
        }
    }
    for unreadable in ["echo 'a", "echo \"a", "cat <<EOF\na", "echo \"$(a\""] {
        assert_eq!(redactor.command(unreadable), None, "{unreadable}");
    }
}

#[test]
fn known_values_go_wherever_they_stand() {
    let redactor = Redactor::new([
        ("MY_TOKEN", "correct horse"),
        ("DB_PASSWORD", "a\"b\\c d1"),
        ("PIN_PASSWORD", "short"),
        ("HOME", "/home/dev"),
        ("DATABASE_URL", "postgres://u:batterystaple@h/x"),
        ("X_PASSWORD", "redacted"),
    ]);
    for text in [
        "say correct horse",
        "say 'correct'\\ horse",
        "x=\"correct horse\"y",
        "batterystaple",
        "{\"n\":\"a\\\"b\\\\c d1\"}",
        "in /p/correct horse/x",
    ] {
        let (all, redacted) = shown(text, &redactor);
        assert!(redacted && !["correct", "horse", "battery", "c d1"].iter().any(|part| all.contains(part)), "{text}: {all}");
    }
    assert_eq!(redactor.text("short /home/dev [redacted]").text, "short /home/dev [redacted]");
    assert!(!format!("{redactor:?}").contains("horse"));
}

#[test]
fn a_secret_at_a_cut_does_not_survive_in_part() {
    let redactor = Redactor::new([("A_TOKEN", BODY)]);
    for secret in
        [format!("sk-ant-{BODY}"), BODY.to_owned(), format!("\"password\": \"{BODY}\""), format!("-----BEGIN PRIVATE KEY-----\n{BODY}")]
    {
        for cut in [4096, 65536] {
            for before in ((cut - secret.len() - 12)..(cut + 4)).step_by(if cut > 4096 { 29 } else { 2 }) {
                for filler in ["x ", "-", "é"] {
                    let text = format!("{} {secret} tail", filler.repeat(before / filler.len()));
                    let shown = redactor.text(&text);
                    assert!(!survives(&shown.text) && shown.text.len() <= 4096, "{cut} {before} {filler:?} {secret}");
                }
            }
        }
    }
    // What is taken out makes room: the end of what was looked at is shown.
    for tail in 0..64 {
        let text = format!("API_KEY='{}' {}sk-ant-{BODY}{BODY} {BODY}", "k".repeat(65536 - 60), "y".repeat(tail));
        assert!(!survives(&redactor.text(&text).text), "{tail}");
    }
}

/// Ordinary texts of which something is taken out, in any form.
fn changed(texts: &str) -> Vec<String> {
    let redactor = Redactor::new([("PATH", "/usr/bin:/bin"), ("PWD", "/home/dev/project"), ("SSH_AUTH_SOCK", "/run/user/1000/ssh-agent")]);
    let changed = lines(texts).into_iter().filter(|text| {
        // Prose need not be readable as a command line.
        let forms = [Some(redactor.text(text)), redactor.command(text)];
        forms.iter().flatten().any(|shown| shown.text != *text || shown.redacted)
    });
    changed.collect()
}

#[test]
fn ordinary_texts_stay_as_they_are() {
    let (ordinary, overcautious) = (include_str!("data/ordinary.txt"), include_str!("data/overcautious.txt"));
    assert_eq!(changed(ordinary), Vec::<String>::new());
    // Those that no rule tells from a secret; what is not changed any more belongs to the others.
    let known = lines(overcautious);
    assert_eq!(changed(overcautious), known);
    let all = lines(ordinary).len() + known.len();
    println!("of {all} ordinary texts {} are changed", known.len());
    assert!(all >= 300 && known.len() * 50 <= all, "more than 2 %");
}

#[test]
fn commands_with_here_documents_and_comments_can_be_read() {
    let redactor = Redactor::default();
    for command in [
        "cat > a.txt <<'EOF'\nit's\nEOF\necho x",
        "ls # don't",
        "echo $((1<<2))",
        "cat <<-X\n\tdon't\n\tX\n",
        "cat <<< \"a b\"",
        "echo \"$(git log --format='%h \"x\"')\"",
        "for i in a b; do echo \"$i\"; done",
    ] {
        assert_eq!(redactor.command(command).unwrap().text, command);
    }
}

#[test]
fn long_inputs_take_linear_time() {
    let redactor = Redactor::new([("A_TOKEN", "aaaaaaaab")]);
    for unit in lines(include_str!("data/units.txt")) {
        let text = unit.repeat(200_000 / unit.len());
        let start = std::time::Instant::now();
        redactor.long_text(&text);
        redactor.command(&text);
        let taken = start.elapsed();
        // Quadratic time would be minutes; this takes a tenth of a second.
        assert!(taken.as_secs() < 10, "{unit:?} took {taken:?}");
    }
}

/// Texts of the pieces that redaction looks at.
fn pieces() -> impl Strategy<Value = String> {
    let known = lines(include_str!("data/pieces.txt"));
    let piece = prop_oneof![
        proptest::sample::select(known),
        "[a-zA-Z0-9_-]{0,24}",
        "[ \r\u{202e}😀é]",
        proptest::strategy::Just(MARKER.to_owned())
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_global_rejects: 1_000_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn redaction_is_stable_and_bounded(text in pieces(), repeat in 1usize..100) {
        let redactor = Redactor::new([("T_TOKEN", "hunter2hunter2")]);
        for text in [text.clone(), text.repeat(repeat)] {
            let once = redactor.text(&text);
            prop_assert!(once.text.len() <= 4096);
            prop_assert!(!once.text.contains("hunter2hunter2"));
            prop_assert!(once.redacted || text.starts_with(&once.text));
            let twice = redactor.text(&once.text);
            prop_assert_eq!(&twice.text, &once.text);
            prop_assert!(!twice.redacted);
            let long = redactor.long_text(&text);
            prop_assert_eq!(&redactor.long_text(&long), &long);
            if let Some(once) = redactor.command(&text) {
                prop_assert!(once.text.len() <= 4096);
                prop_assert!(!once.text.contains("hunter2hunter2"));
                if once.full_length.is_none() {
                    prop_assert_eq!(redactor.command(&once.text).map(|shown| shown.text), Some(once.text));
                }
            }
        }
    }

    #[test]
    fn nothing_hides_what_a_command_does(before in pieces(), with in proptest::sample::select(vec!["\n", "\n\n", " \n "])) {
        let redactor = Redactor::new([("T_TOKEN", "hunter2hunter2")]);
        // Only what is complete can be followed by a command.
        let complete = redactor.command(&before).is_some() && !before.ends_with('\\') && before.matches('`').count() % 2 == 0;
        prop_assume!(complete && before.len() < 2000);
        for more in ["rm -rf /precious", "echo $(rm -rf /precious)", "echo \"a`rm -rf /precious`\"", "true && rm -rf /precious"] {
            let shown = redactor.command(&format!("{before}{with}{more}"));
            prop_assert!(shown.as_ref().is_none_or(|shown| shown.text.contains("rm -rf /precious")), "{:?}", shown);
        }
        let inside = redactor.command(&format!("{before}{with}x \"sk-ant-{BODY}$(rm -rf /precious)\""));
        prop_assert!(inside.as_ref().is_none_or(|shown| shown.text.contains("rm -rf /precious")), "{:?}", inside);
    }

    #[test]
    fn no_canary_among_any_pieces(before in pieces(), after in pieces(), quote in proptest::sample::select(vec!["", " ", "'", "\""])) {
        let text = format!("{before} {quote}sk-ant-{BODY}{quote}{after}");
        let redactor = Redactor::default();
        prop_assert!(!survives(&redactor.text(&text).text));
        prop_assert!(!survives(&redactor.command(&text).map(|shown| shown.text).unwrap_or_default()));
    }
}
