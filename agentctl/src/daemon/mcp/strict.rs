//! JSON that every reader reads alike: no member stands twice, at any depth.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Why a text is none; `Ok` if it is.
pub(super) fn check(line: &[u8]) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(line);
    Strict.deserialize(&mut reader)?;
    reader.end()
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            map.next_value_seed(Strict)?;
            if let Some(name) = seen.replace(name) {
                return Err(A::Error::custom(format!("the member {name:?} stands twice")));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Strict)?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_stands_twice_is_seen_at_any_depth() {
        for good in [r#"{"a":{"b":[1,-1,1.5,null,true,"x",{"b":{}}]},"b":1}"#, "[]", "1"] {
            check(good.as_bytes()).unwrap();
        }
        for bad in [r#"{"a":1,"a":1}"#, r#"{"p":{"x":[{"option_id":"a","option\u005fid":"b"}]}}"#, "{", "{} {}", "\u{fffd}"] {
            assert!(check(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
