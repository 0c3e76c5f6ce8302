//! Secrets of many kinds in many places are never shown; ordinary texts stay as they are.

use acp_bridge::presentation::{MARKER, MAX_SHOWN, Redactor, present};
use acp_bridge::prompt::Prompt;
use proptest::prelude::*;
use serde_json::json;

/// The value that each test secret holds, in a form that its kind allows.
const SECRETS: &[(&str, &str)] = &[
    ("openai", "sk-Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0Ca"),
    ("openai project", "sk-proj-Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0CaEr8Ty6"),
    ("anthropic", "sk-ant-api03-Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0Ca-AA"),
    ("github", "ghp_Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0CaEr8T"),
    ("github oauth", "gho_Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0CaEr8T"),
    ("github fine-grained", "github_pat_11ABCDEFG0Zq8Xw3Lm5Tr9_Yv2Bn7Kp4Df6Hs1Jg0CaEr8TyUi5Op3As"),
    ("gitlab", "glpat-Zq8Xw3Lm5Tr9Yv2Bn7Kp"),
    ("slack", "xoxb-123456789012-1234567890123-Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6"),
    ("stripe", "sk_live_Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6"),
    ("aws key id", "AKIAZQ8XW3LM5TR9YV2B"),
    ("google", "AIzaSyZq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0CaE"),
    ("npm", "npm_Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0CaEr8T"),
    ("pypi", "pypi-AgEIcHlwaS5vcmcCJDZq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0CaEr8TyUi5Op3As"),
    ("hugging face", "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"),
    ("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0CaEr8TyUi5Op3"),
    ("pem", "-----BEGIN RSA PRIVATE KEY-----\nZq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0Ca\n-----END RSA PRIVATE KEY-----"),
    ("of the environment", "Tr9Yv2Bn7Kp4Df6"),
];

/// Texts around a secret, `{}`.
const PLACES: &[&str] = &[
    "{}",
    "echo {}",
    "echo \"{}\"",
    "export TOKEN={}",
    "API_KEY='{}' ./run",
    "curl -H \"Authorization: Bearer {}\" https://example.com",
    "curl -H 'X-Api-Key: {}' https://example.com",
    "tool --token {} --verbose",
    "tool --api-key={}",
    "{\"password\": \"{}\", \"user\": \"bob\"}",
    "secret: {}",
    "the key ({}) was used",
];

/// Texts whose own form makes a secret of `hunter2Xw3Lm5`.
const FORMS: &[&str] = &[
    "https://bob:hunter2Xw3Lm5@example.com/path",
    "git clone https://hunter2Xw3Lm5@example.com/repo.git",
    "https://example.com/?access_token=hunter2Xw3Lm5&page=2",
    "PASSWORD=hunter2Xw3Lm5 make deploy",
    "export DB_PASSWORD=\"hunter2Xw3Lm5\"",
    "mysql -u root -phunter2Xw3Lm5 app",
    "curl -u bob:hunter2Xw3Lm5 https://example.com",
    "docker login --password hunter2Xw3Lm5",
    "login --password=hunter2Xw3Lm5",
    "curl -H 'Cookie: session=hunter2Xw3Lm5' https://example.com",
    "curl -H \"Authorization: Basic hunter2Xw3Lm5\" https://example.com",
    "Authorization: token hunter2Xw3Lm5",
    "client_secret: hunter2Xw3Lm5",
    "{\"api_key\":\"hunter2Xw3Lm5\"}",
    "AWS_SECRET_ACCESS_KEY=hunter2Xw3Lm5",
    "PGPASSWORD=hunter2Xw3Lm5 psql",
    "sshpass -p hunter2Xw3Lm5 ssh host",
    "redis-cli -a hunter2Xw3Lm5 ping",
];

/// What is said and done every day.
const ORDINARY: &[&str] = &[
    "git status",
    "git status --short && git diff HEAD~1",
    "git commit -m 'Add token refresh to the client'",
    "git checkout 1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b -- src/token.rs",
    "git rebase -i origin/main",
    "git log --oneline --author=bob",
    "git push -u origin feature/password-reset",
    "cargo test --workspace -- --nocapture",
    "cargo build --release -p agentctl",
    "cargo clippy --all-targets -- -D warnings",
    "npm run build --production",
    "npm install --save-dev typescript@5.4.2",
    "npx tsc --noEmit -p tsconfig.json",
    "pip install -r requirements.txt",
    "python3 -m pytest -x tests/test_auth.py",
    "python -c 'print(1 + 1)'",
    "go test ./...",
    "make -j4 all",
    "docker build -t app:latest .",
    "docker run -p 8080:80 -u 1000:1000 nginx",
    "docker compose up -d",
    "kubectl get secret my-secret -o yaml",
    "kubectl get pods -n kube-system",
    "terraform plan -out=plan.tfplan",
    "ls -la /home/dev/project",
    "cat /home/dev/.ssh/id_rsa.pub",
    "grep -rn \"password\" src/ --include=*.rs",
    "rg -n 'api_key' docs/",
    "find . -name '*.rs' -newer Cargo.toml",
    "sed -n '1,20p' src/main.rs",
    "awk '{print $1}' access.log | sort | uniq -c",
    "tar -xzf archive.tar.gz -C /tmp",
    "rsync -avz ./dist/ host:/var/www/",
    "ssh -p 2222 host uptime",
    "scp -P 2222 file host:/tmp",
    "mkdir -p target/debug",
    "rm -rf node_modules",
    "chmod 600 ~/.ssh/config",
    "echo hello > proof.txt",
    "echo \"$GITHUB_TOKEN\" | wc -c",
    "curl https://example.com/api/v1/users?page=2&limit=10",
    "curl -X POST -d @body.json https://example.com/tokens",
    "curl -H 'Content-Type: application/json' http://127.0.0.1:8080/health",
    "psql -h localhost -U app -d app -c 'select count(*) from tokens'",
    "sqlite3 audit.db '.schema'",
    "uuidgen",
    "echo 550e8400-e29b-41d4-a716-446655440000",
    "sha256sum target/release/agentctl",
    "systemctl --user status agentctl",
    "journalctl -u nginx --since today",
    "openssl rand -hex 32",
    "ps aux | grep node",
    "kill -TERM 12345",
    "export PATH=$PATH:/usr/local/bin",
    "NODE_ENV=production node server.js",
    "RUST_LOG=debug cargo run",
    "Read /home/dev/project/src/auth/password.rs",
    "Edit src/token.rs",
    "Writing to mock_written.txt",
    "Fetch https://docs.rs/tokio/latest/tokio/#feature-flags",
    "Search for 'secret' in 12 files",
    "Run the tests and show the failures",
    "apply the patch to keyboard.rs and monkey.ts",
];

fn redactor() -> Redactor {
    Redactor::new([("DEPLOY_TOKEN", "Tr9Yv2Bn7Kp4Df6"), ("HOME", "/home/dev"), ("LANG", "C.UTF-8"), ("EDITOR", "vim-is-long")])
}

/// Every way in which a text of an agent is shown.
fn shown(text: &str) -> Vec<String> {
    let redactor = redactor();
    let params = json!({
        "sessionId": "s",
        "toolCall": {"toolCallId": "c", "kind": "execute", "title": text, "rawInput": {"command": text, "cwd": text},
                     "locations": [{"path": text}], "content": [{"type": "content", "content": {"type": "text", "text": text}}]},
        "options": [{"optionId": "a", "name": text, "kind": "allow_once"}],
        "_meta": {"permission": {"version": 1, "title": text, "description": text}}
    });
    let fetch = json!({"toolCall": {"kind": "fetch", "title": text, "rawInput": {"url": text}}});
    let array = json!({"toolCall": {"kind": "execute", "title": text, "rawInput": {"command": ["bash", "-lc", text]}}});
    let mut all = vec![redactor.text(text).text, redactor.long_text(text), redactor.command(text).map(|s| s.text).unwrap_or_default()];
    for params in [params, fetch, array] {
        let raw = serde_json::value::to_raw_value(&params).unwrap();
        let view = present(&Prompt::read(Some(&raw)).unwrap(), None, &redactor);
        all.push(view.title);
        all.push(serde_json::to_string(&view.action).unwrap());
        all.extend(view.options.into_iter().map(|option| option.name));
    }
    all
}

#[test]
fn no_secret_of_any_kind_is_shown_in_any_place() {
    for (kind, secret) in SECRETS {
        // The part that no kind shares.
        let canary = if *kind == "aws key id" {
            "ZQ8XW3LM5TR9YV2B"
        } else if secret.contains("Tr9Yv2Bn7Kp4Df6") {
            "Tr9Yv2Bn7Kp4Df6"
        } else {
            &secret[secret.len() - 16..]
        };
        for place in PLACES {
            let text = place.replace("{}", secret);
            for seen in shown(&text) {
                assert!(!seen.contains(canary), "{kind} in {place:?} is shown: {seen}");
            }
        }
    }
}

#[test]
fn no_secret_by_its_form_is_shown() {
    for form in FORMS {
        for seen in shown(form) {
            assert!(!seen.contains("hunter2Xw3Lm5"), "{form:?} is shown: {seen}");
        }
        assert!(redactor().text(form).redacted);
    }
}

#[test]
fn quoting_hides_no_secret() {
    for command in [
        "echo ghp_Zq8Xw3Lm5'Tr9Yv2Bn7Kp4Df6Hs1Jg0CaEr8T'",
        "echo \"ghp_\"Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6Hs1Jg0CaEr8T",
        "echo ghp_Zq8Xw3Lm5Tr9Yv2Bn7Kp4Df6\\\nHs1Jg0CaEr8T",
        "echo 'Tr9Yv2B'\"n7Kp4Df6\"",
        "PASSWORD='hun'ter2Xw3Lm5 x",
    ] {
        let shown = redactor().command(command);
        let text = shown.map(|s| s.text).unwrap_or_default();
        assert!(text.contains(MARKER) || text.is_empty(), "{command:?} is shown: {text}");
        for part in ["Tr9Yv2B", "n7Kp4Df6", "Hs1Jg0CaEr8T", "ter2Xw3Lm5"] {
            assert!(!text.contains(part), "{command:?} is shown: {text}");
        }
    }
}

#[test]
fn ordinary_texts_stay_as_they_are() {
    let redactor = redactor();
    let changed: Vec<_> = ORDINARY
        .iter()
        .filter(|text| redactor.text(text).text != **text || redactor.command(text).is_none_or(|s| s.text != **text))
        .map(|text| (text, redactor.text(text).text, redactor.command(text).map(|s| s.text)))
        .collect();
    assert!(changed.is_empty(), "{} of {}: {changed:#?}", changed.len(), ORDINARY.len());
}

proptest! {
    #[test]
    fn redaction_is_bounded_idempotent_and_hides_a_canary(before in ".{0,60}", place in 0..PLACES.len(), secret in 0..SECRETS.len(), after in "[ -~]{0,40}") {
        let redactor = redactor();
        let secret = SECRETS[secret].1;
        let text = format!("{before} {} {after}", PLACES[place].replace("{}", secret));
        let once = redactor.text(&text);
        prop_assert!(once.text.len() <= MAX_SHOWN && !once.text.contains(secret), "{}", once.text);
        prop_assert_eq!(&redactor.text(&once.text).text, &once.text);
        if let Some(once) = redactor.command(&text) {
            prop_assert!(once.text.len() <= MAX_SHOWN && !once.text.contains(secret), "{}", once.text);
            prop_assert_eq!(redactor.command(&once.text).map(|twice| twice.text), Some(once.text));
        }
    }

    #[test]
    fn any_text_is_redacted_without_a_panic(text in any::<String>()) {
        let redactor = redactor();
        let once = redactor.text(&text);
        prop_assert_eq!(redactor.text(&once.text).text, once.text);
        let _ = redactor.command(&text);
        let _ = redactor.long_text(&text);
    }
}
