//! Permission prompts as types, read leniently: a malformed optional field never loses a prompt.
//!
//! What is identity is kept exactly; what can't be read is absent. Only a text that two parsers could read
//! differently (a name that stands twice where we read) is refused.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::json::{self, Members};

/// The most bytes of the params of one prompt; a larger one is refused. Reading one takes the reactor's time.
pub const MAX_PROMPT_BYTES: usize = 8 * 1024 * 1024;
/// The most options of one prompt; a prompt with more is refused.
pub const MAX_OPTIONS: usize = 128;
/// The most bytes of one option id; a longer one is shown cut and can't be selected.
pub const MAX_OPTION_ID_BYTES: usize = 64 * 1024;
/// The most bytes of all option ids of one prompt; a prompt with more is refused.
pub const MAX_OPTION_IDS_BYTES: usize = 256 * 1024;
/// The most bytes of a `sessionId` or `toolCallId`; a longer one is taken as absent.
pub const MAX_ID_BYTES: usize = 4 * 1024;

/// The most bytes of the JSON of an option's `kind`; a larger one reads as missing.
pub const MAX_KIND_BYTES: usize = 1024;

/// The `params` of `session/request_permission`.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// `sessionId`, as sent.
    pub acp_session_id: Option<String>,
    /// What the agent wants to do, as far as this request tells.
    pub tool_call: ToolCall,
    /// The choices, in the agent's order.
    pub options: Vec<PromptOption>,
    /// `_meta.permission`, if it is a well-formed version 1.
    pub hint: Option<Hint>,
}

/// One choice offered by the agent.
#[derive(Debug, Clone)]
pub struct PromptOption {
    /// `optionId`; lossy text where [`selectable`](Self::selectable) is false.
    pub id: String,
    /// Whether exactly this option is named by its id: the id is Unicode text, within
    /// [`MAX_OPTION_ID_BYTES`], and stands once.
    pub selectable: bool,
    /// `name`, empty if missing or no text.
    pub name: String,
    /// `kind` as the JSON that was sent; `None` if missing, over [`MAX_KIND_BYTES`], or JSON that not every reader takes.
    pub kind: Option<Box<RawValue>>,
}

/// A tool call, as far as it was told. Every field is the agent's claim.
#[derive(Debug, Clone, Default)]
pub struct ToolCall {
    /// `toolCallId`.
    pub id: Option<String>,
    /// `title`.
    pub title: Option<String>,
    /// `kind`, such as `execute` or `edit`.
    pub kind: Option<String>,
    /// `name`: some agents' own name of the tool.
    pub name: Option<String>,
    /// `rawInput`, unread.
    pub raw_input: Option<Box<RawValue>>,
    /// The `path` of each of `locations`.
    pub locations: Vec<String>,
    /// `content`, unread.
    pub content: Option<Box<RawValue>>,
    /// `_meta`, unread.
    pub meta: Option<Box<RawValue>>,
}

/// Presentation hint of the permission extension, version 1. It decides nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Non-empty heading.
    pub title: String,
    /// Further text.
    pub description: Option<String>,
}

/// Why a prompt is answered -32602 instead of being listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// `params` is missing or no object.
    #[error("params of session/request_permission must be an object")]
    NotAnObject,
    /// More than [`MAX_PROMPT_BYTES`].
    #[error("params of session/request_permission have {0} bytes; {MAX_PROMPT_BYTES} are the most")]
    TooLarge(usize),
    /// A name stands twice in a part that is read.
    #[error("params of session/request_permission name {0:?} twice")]
    Duplicate(String),
    /// More than [`MAX_OPTIONS`] options.
    #[error("session/request_permission offers {0} options; {MAX_OPTIONS} are the most")]
    TooManyOptions(usize),
    /// More than [`MAX_OPTION_IDS_BYTES`] of option ids.
    #[error("session/request_permission has {0} bytes of option ids; {MAX_OPTION_IDS_BYTES} are the most")]
    OptionIdsTooLarge(usize),
}

impl Prompt {
    /// Reads the params of a `session/request_permission`.
    pub fn read(params: Option<&RawValue>) -> Result<Self, PromptError> {
        if let Some(raw) = params.filter(|raw| raw.get().len() > MAX_PROMPT_BYTES) {
            return Err(PromptError::TooLarge(raw.get().len()));
        }
        let params = members(params.ok_or(PromptError::NotAnObject)?)?.ok_or(PromptError::NotAnObject)?;
        let tool_call = match params.get("toolCall") {
            Some(raw) => ToolCall::read(raw)?,
            None => ToolCall::default(),
        };
        Ok(Self {
            acp_session_id: bounded_id(&params, "sessionId"),
            tool_call,
            options: params.get("options").map(read_options).transpose()?.unwrap_or_default(),
            hint: params.get("_meta").map(read_hint).transpose()?.flatten(),
        })
    }
}

impl ToolCall {
    /// Reads a tool call, of a prompt or of a `session/update`. What is no object reads as nothing told.
    pub fn read(raw: &RawValue) -> Result<Self, PromptError> {
        let Some(call) = members(raw)? else { return Ok(Self::default()) };
        if let Some(raw_input) = call.get("rawInput") {
            members(raw_input)?;
        }
        let mut locations = Vec::new();
        for location in call.get("locations").and_then(json::elements).unwrap_or_default() {
            locations.extend(members(location)?.and_then(|l| l.string("path")));
        }
        let raw = |name: &str| call.get(name).filter(|v| v.get() != "null").map(ToOwned::to_owned);
        Ok(Self {
            id: bounded_id(&call, "toolCallId"),
            title: call.string("title"),
            kind: call.string("kind"),
            name: call.string("name"),
            raw_input: raw("rawInput"),
            locations,
            content: raw("content"),
            meta: raw("_meta"),
        })
    }

    /// Takes from `newer` everything that it tells.
    pub fn merge(&mut self, newer: ToolCall) {
        fn take<T>(into: &mut Option<T>, from: Option<T>) {
            if from.is_some() {
                *into = from;
            }
        }
        take(&mut self.id, newer.id);
        take(&mut self.title, newer.title);
        take(&mut self.kind, newer.kind);
        take(&mut self.name, newer.name);
        // Agents announce a call with an empty input and fill it in later, never the other way round.
        take(&mut self.raw_input, newer.raw_input.filter(|raw| raw.get() != "{}"));
        take(&mut self.content, newer.content.filter(|raw| raw.get() != "[]"));
        take(&mut self.meta, newer.meta);
        if !newer.locations.is_empty() {
            self.locations = newer.locations;
        }
    }
}

/// The members of an object that is read; an error if a name stands twice, `None` if it is no object.
fn members(raw: &RawValue) -> Result<Option<Members<'_>>, PromptError> {
    let Ok(members) = Members::read(raw) else { return Ok(None) };
    match members.duplicate() {
        Some(name) => Err(PromptError::Duplicate(name.to_owned())),
        None => Ok(Some(members)),
    }
}

fn bounded_id(members: &Members<'_>, name: &str) -> Option<String> {
    members.string(name).filter(|id| id.len() <= MAX_ID_BYTES)
}

fn read_options(raw: &RawValue) -> Result<Vec<PromptOption>, PromptError> {
    let elements = json::elements(raw).unwrap_or_default();
    if elements.len() > MAX_OPTIONS {
        return Err(PromptError::TooManyOptions(elements.len()));
    }
    let mut options = Vec::with_capacity(elements.len());
    for element in elements {
        let Some(option) = members(element)? else { continue };
        let exact = option.string("optionId").filter(|id| id.len() <= MAX_OPTION_ID_BYTES);
        options.push(PromptOption {
            selectable: exact.is_some(),
            id: exact.unwrap_or_else(|| option.get("optionId").map(|raw| lossy_text(raw.get())).unwrap_or_default()),
            name: option.string("name").unwrap_or_default(),
            kind: option.get("kind").filter(|kind| is_passable(kind.get())).map(ToOwned::to_owned),
        });
    }
    let bytes = options.iter().map(|option| option.id.len()).sum();
    if bytes > MAX_OPTION_IDS_BYTES {
        return Err(PromptError::OptionIdsTooLarge(bytes));
    }
    let mut count: HashMap<String, usize> = HashMap::new();
    for option in options.iter().filter(|o| o.selectable) {
        *count.entry(option.id.clone()).or_default() += 1;
    }
    for option in &mut options {
        option.selectable &= count.get(&option.id) == Some(&1);
    }
    Ok(options)
}

/// Whether JSON can stand within ours, where what can't be read makes the whole of it unreadable: no lone
/// surrogate, no number out of range, no deep nesting.
fn is_passable(raw: &str) -> bool {
    const AROUND: usize = 64;
    // Nearly every kind is a text without escapes; the general way costs more than all the rest of a prompt.
    let plain = raw.starts_with('"') && !raw.contains('\\');
    raw.len() <= MAX_KIND_BYTES
        && (plain || serde_json::from_str::<serde_json::Value>(&format!("{}{raw}{}", "[".repeat(AROUND), "]".repeat(AROUND))).is_ok())
}

/// Something to show of an id that is no selectable text.
fn lossy_text(raw: &str) -> String {
    let text = raw.trim_matches('"');
    let mut end = text.len().min(MAX_OPTION_ID_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

fn read_hint(meta: &RawValue) -> Result<Option<Hint>, PromptError> {
    let Some(meta) = members(meta)? else { return Ok(None) };
    let Some(raw) = meta.get("permission") else { return Ok(None) };
    let Some(hint) = members(raw)? else { return Ok(None) };
    if hint.get("version").is_none_or(|version| version.get() != "1") {
        return Ok(None);
    }
    let description = match hint.get("description") {
        None => None,
        Some(raw) => match json::string(raw) {
            Some(text) => Some(text),
            None => return Ok(None),
        },
    };
    Ok(hint.string("title").filter(|title| !title.is_empty()).map(|title| Hint { title, description }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Prompt, PromptError> {
        Prompt::read(Some(&serde_json::from_str::<Box<RawValue>>(json).unwrap()))
    }

    #[test]
    fn a_prompt_with_nothing_but_a_tool_call_id_is_a_prompt() {
        let prompt = read(r#"{"toolCall":{"toolCallId":"c"}}"#).unwrap();
        assert_eq!(prompt.tool_call.id.as_deref(), Some("c"));
        assert!(prompt.options.is_empty());
        assert_eq!(prompt.acp_session_id, None);
    }

    #[test]
    fn malformed_optional_fields_are_absent_and_the_rest_is_kept() {
        let prompt =
            read(r#"{"sessionId":7,"toolCall":{"toolCallId":1,"title":[],"kind":"execute","locations":[{"path":3},{"path":"/a"},5]},"options":[3,{"optionId":"a","kind":9}],"_meta":3}"#)
                .unwrap();
        assert_eq!(prompt.tool_call.kind.as_deref(), Some("execute"));
        assert_eq!(prompt.tool_call.locations, ["/a"]);
        assert_eq!(prompt.options.len(), 1);
        assert_eq!(prompt.options[0].kind.as_ref().unwrap().get(), "9");
        assert!(prompt.options[0].selectable);
    }

    #[test]
    fn an_option_id_that_stands_twice_is_shown_but_not_selectable() {
        let prompt =
            read(r#"{"options":[{"optionId":"a","kind":"allow_once"},{"optionId":"\u0061","kind":"reject_once"},{"optionId":"A"}]}"#)
                .unwrap();
        assert_eq!(
            prompt.options.iter().map(|o| (o.id.as_str(), o.selectable)).collect::<Vec<_>>(),
            [("a", false), ("a", false), ("A", true)]
        );
    }

    #[test]
    fn an_option_id_that_is_no_text_is_shown_but_not_selectable() {
        let prompt = read(r#"{"options":[{"optionId":"x\ud800"},{"optionId":4},{}]}"#).unwrap();
        assert_eq!(prompt.options.iter().map(|o| o.selectable).collect::<Vec<_>>(), [false, false, false]);
        assert_eq!(prompt.options[0].id, "x\\ud800");
    }

    #[test]
    fn a_kind_that_would_make_a_list_unreadable_is_absent() {
        let kind = |kind: &str| read(&format!(r#"{{"options":[{{"optionId":"a","kind":{kind}}}]}}"#)).unwrap().options.remove(0).kind;
        for good in [r#""_vendor_x""#, "7", r#"{"a":[1.50]}"#, "null"] {
            assert_eq!(kind(good).unwrap().get(), good);
        }
        for bad in [
            r#""\ud800""#,
            r#"{"\udfff":1}"#,
            "1e999",
            &format!("{}{}", "[".repeat(100), "]".repeat(100)),
            &format!("{:?}", "x".repeat(MAX_KIND_BYTES)),
        ] {
            assert!(kind(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn names_that_stand_twice_where_we_read_are_refused() {
        for json in [
            r#"{"sessionId":"a","sessionId":"b"}"#,
            r#"{"toolCall":{"title":"a","\u0074itle":"b"}}"#,
            r#"{"toolCall":{"rawInput":{"command":"ls","command":"rm"}}}"#,
            r#"{"toolCall":{"locations":[{"path":"a","path":"b"}]}}"#,
            r#"{"options":[{"optionId":"a","optionId":"b"}]}"#,
            r#"{"_meta":{"permission":{"version":1,"title":"a","title":"b"}}}"#,
        ] {
            assert!(matches!(read(json), Err(PromptError::Duplicate(_))), "{json}");
        }
    }

    #[test]
    fn params_that_are_no_object_are_refused() {
        assert_eq!(Prompt::read(None).unwrap_err(), PromptError::NotAnObject);
        assert_eq!(read("[1]").unwrap_err(), PromptError::NotAnObject);
    }

    #[test]
    fn only_a_well_formed_hint_counts() {
        let hint = |json: &str| read(&format!(r#"{{"_meta":{{"permission":{json}}}}}"#)).unwrap().hint;
        assert_eq!(hint(r#"{"version":1,"title":"T","description":"D"}"#), Some(Hint { title: "T".into(), description: Some("D".into()) }));
        for json in [r#"{"version":2,"title":"T"}"#, r#"{"version":1,"title":""}"#, r#"{"version":1,"title":"T","description":3}"#, "[]"] {
            assert_eq!(hint(json), None, "{json}");
        }
    }
}
