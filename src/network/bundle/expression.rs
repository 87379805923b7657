//! A bundle's `$` expressions, read and never executed: literals, lists, arithmetic, comparisons and references are worked out;
//! a call becomes the object that names what would be called; anything else stays unknown, with its text.

use super::values::{arithmetic, builtin, compared, method, number, place_of, truth, unknown};
use serde_json::{Map, Value, json};

/// Longest expression read.
pub(super) const MOST_TEXT: usize = 4096;
/// Brackets inside each other.
const MOST_DEPTH: u32 = 12;
/// Most entries of a list that is worked out, those of the lists in it counted too.
pub(super) const MOST_ENTRIES: usize = 4096;

/// Looks up a reference; its error ends the reading of the whole file (a cycle, say).
pub(super) type Lookup<'a> = &'a mut dyn FnMut(&str) -> Result<Value, String>;

/// The value of an expression (without its `$`).
pub(super) fn value(text: &str, lookup: Lookup<'_>) -> Result<Value, String> {
    if text.len() > MOST_TEXT {
        return Ok(unknown(text));
    }
    let mut reader = Reader {
        text,
        at: 0,
        lookup,
        depth: 0,
        failed: None,
    };
    let read = reader.ternary();
    reader.space();
    let whole = reader.at == text.len();
    if let Some(error) = reader.failed {
        return Err(error);
    }
    Ok(match read {
        Some(v) if whole => v,
        _ => unknown(text),
    })
}

struct Reader<'t, 'l> {
    text: &'t str,
    at: usize,
    lookup: Lookup<'l>,
    depth: u32,
    /// What a reference failed with.
    failed: Option<String>,
}

impl<'t> Reader<'t, '_> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes a sign if it is next.
    fn sign(&mut self, sign: &str) -> bool {
        self.space();
        let is = self.rest().starts_with(sign);
        if is {
            self.at += sign.len();
        }
        is
    }

    /// Takes a word if it is next and whole.
    fn word(&mut self, word: &str) -> bool {
        self.space();
        let rest = self.rest();
        let is = rest
            .strip_prefix(word)
            .is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        if is {
            self.at += word.len();
        }
        is
    }

    fn name(&mut self) -> Option<&'t str> {
        self.space();
        let rest = self.rest();
        let n = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let name = rest.get(..n).filter(|w| !w.is_empty())?;
        self.at += n;
        Some(name)
    }

    fn ternary(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return None;
        }
        let first = self.either()?;
        let value = if self.word("if") {
            let condition = self.either()?;
            if !self.word("else") {
                return None;
            }
            let other = self.ternary()?;
            match truth(&condition) {
                Some(true) => first,
                Some(false) => other,
                None => unknown(self.text),
            }
        } else {
            first
        };
        self.depth -= 1;
        Some(value)
    }

    fn either(&mut self) -> Option<Value> {
        let mut value = self.both()?;
        while self.word("or") {
            let other = self.both()?;
            value = match truth(&value) {
                Some(true) => value,
                Some(false) => other,
                None => unknown(self.text),
            };
        }
        Some(value)
    }

    fn both(&mut self) -> Option<Value> {
        let mut value = self.not()?;
        while self.word("and") {
            let other = self.not()?;
            value = match truth(&value) {
                Some(true) => other,
                Some(false) => value,
                None => unknown(self.text),
            };
        }
        Some(value)
    }

    fn not(&mut self) -> Option<Value> {
        let mut times = 0u32;
        while self.word("not") {
            times += 1;
        }
        let value = self.compare()?;
        if times == 0 {
            return Some(value);
        }
        Some(match truth(&value) {
            Some(t) => Value::Bool(t == times.is_multiple_of(2)),
            None => unknown(self.text),
        })
    }

    fn compare(&mut self) -> Option<Value> {
        let left = self.sum()?;
        for sign in ["==", "!=", "<=", ">=", "<", ">"] {
            if self.sign(sign) {
                let right = self.sum()?;
                return Some(compared(sign, &left, &right).unwrap_or_else(|| unknown(self.text)));
            }
        }
        Some(left)
    }

    fn sum(&mut self) -> Option<Value> {
        let mut value = self.product()?;
        loop {
            let sign = if self.sign("+") {
                '+'
            } else if self.sign("-") {
                '-'
            } else {
                return Some(value);
            };
            let right = self.product()?;
            value = arithmetic(sign, &value, &right).unwrap_or_else(|| unknown(self.text));
        }
    }

    fn product(&mut self) -> Option<Value> {
        let mut value = self.unary()?;
        loop {
            // Powers would be a way to numbers without end.
            self.space();
            if self.rest().starts_with("**") {
                return None;
            }
            let sign = if self.sign("*") {
                '*'
            } else if self.sign("//") {
                '|'
            } else if self.sign("/") {
                '/'
            } else if self.sign("%") {
                '%'
            } else {
                return Some(value);
            };
            let right = self.unary()?;
            value = arithmetic(sign, &value, &right).unwrap_or_else(|| unknown(self.text));
        }
    }

    fn unary(&mut self) -> Option<Value> {
        let mut negative = false;
        loop {
            if self.sign("-") {
                negative = !negative;
            } else if !self.sign("+") {
                break;
            }
        }
        let value = self.postfix()?;
        if !negative {
            return Some(value);
        }
        Some(arithmetic('-', &json!(0), &value).unwrap_or_else(|| unknown(self.text)))
    }

    /// A value and what follows it: attributes, calls, places in a list.
    fn postfix(&mut self) -> Option<Value> {
        let mut value = self.atom()?;
        loop {
            if self.sign("[") {
                let place = self.ternary()?;
                if !self.sign("]") {
                    return None;
                }
                value = place_of(&value, &place).unwrap_or_else(|| unknown(self.text));
            } else if self.sign(".") {
                let name = self.name()?;
                value = if self.sign("(") {
                    let call = self.call(name)?;
                    method(value, name, call)
                } else {
                    unknown(self.text)
                };
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<Value> {
        self.space();
        match self.rest().chars().next()? {
            '@' => self.reference(),
            '(' => self.tuple(),
            '[' => {
                self.at += 1;
                self.items("]").map(Value::Array)
            }
            '{' => self.mapping(),
            '\'' | '"' => self.string(),
            c if c.is_ascii_digit() || c == '.' => self.number(),
            c if c.is_alphabetic() || c == '_' => self.named(),
            _ => None,
        }
    }

    /// `@id`, `@id#key`, `@id::key`.
    fn reference(&mut self) -> Option<Value> {
        self.at += 1;
        let rest = self.rest();
        let mut n = 0;
        loop {
            let tail = rest.get(n..)?;
            let word = tail
                .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                .unwrap_or(tail.len());
            n += word;
            let tail = rest.get(n..)?;
            let joint = if tail.starts_with("::") {
                2
            } else {
                usize::from(tail.starts_with('#'))
            };
            let follows = tail.get(joint..).is_some_and(|t| {
                t.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '#')
            });
            if joint == 0 || !follows {
                break;
            }
            n += joint;
        }
        let id = rest.get(..n).filter(|id| !id.is_empty())?;
        self.at += n;
        match (self.lookup)(id) {
            Ok(value) => Some(value),
            Err(error) => {
                self.failed = self.failed.take().or(Some(error));
                None
            }
        }
    }

    fn tuple(&mut self) -> Option<Value> {
        self.at += 1;
        if self.sign(")") {
            return Some(json!([]));
        }
        let first = self.ternary()?;
        if self.sign(")") {
            return Some(first);
        }
        if !self.sign(",") {
            return None;
        }
        let mut list = vec![first];
        list.extend(self.items(")")?);
        Some(Value::Array(list))
    }

    /// Values up to a closing sign.
    fn items(&mut self, end: &str) -> Option<Vec<Value>> {
        let mut list = Vec::new();
        loop {
            if self.sign(end) {
                return Some(list);
            }
            if list.len() >= MOST_ENTRIES {
                return None;
            }
            list.push(self.ternary()?);
            if !self.sign(",") {
                return self.sign(end).then_some(list);
            }
        }
    }

    fn mapping(&mut self) -> Option<Value> {
        self.at += 1;
        let mut map = Map::new();
        loop {
            if self.sign("}") {
                return Some(Value::Object(map));
            }
            let key = self.ternary()?;
            if !self.sign(":") {
                return None;
            }
            let value = self.ternary()?;
            let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            map.insert(key, value);
            if !self.sign(",") {
                return self.sign("}").then_some(Value::Object(map));
            }
        }
    }

    fn string(&mut self) -> Option<Value> {
        let quote = self.rest().chars().next()?;
        let inner = self.rest().get(1..)?;
        let end = inner.find(quote)?;
        let text = inner.get(..end)?;
        if text.contains('\\') || text.contains('\n') {
            return None;
        }
        self.at += end + 2;
        Some(text.into())
    }

    fn number(&mut self) -> Option<Value> {
        let rest = self.rest();
        let mut before = ' ';
        let n = rest
            .find(|c: char| {
                let exponent = (c == '-' || c == '+') && matches!(before, 'e' | 'E');
                before = c;
                !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '_') || exponent)
            })
            .unwrap_or(rest.len());
        let text = rest.get(..n)?.replace('_', "");
        self.at += n;
        match text.parse::<i64>() {
            Ok(n) => Some(n.into()),
            Err(_not_whole) => number(text.parse().ok()?),
        }
    }

    /// True, a function of Python, or a path of names.
    fn named(&mut self) -> Option<Value> {
        for (word, value) in [
            ("True", Value::Bool(true)),
            ("False", Value::Bool(false)),
            ("None", Value::Null),
        ] {
            if self.word(word) {
                return Some(value);
            }
        }
        let mut path = self.name()?.to_owned();
        if matches!(path.as_str(), "lambda" | "for" | "in" | "is") {
            return None;
        }
        loop {
            if self.sign("(") {
                let call = self.call(&path)?;
                return Some(builtin(&path, &call).unwrap_or(call));
            }
            if !self.sign(".") {
                return Some(unknown(&path));
            }
            path.push('.');
            path.push_str(self.name()?);
        }
    }

    /// The arguments after an opening bracket, as the object that names the call.
    fn call(&mut self, target: &str) -> Option<Value> {
        let mut map = Map::new();
        map.insert("_target_".to_owned(), target.into());
        let mut places = Vec::new();
        loop {
            if self.sign(")") {
                break;
            }
            if map.len() + places.len() >= MOST_ENTRIES {
                return None;
            }
            let start = self.at;
            let key = self.name().map(str::to_owned);
            let named = key.filter(|_| {
                self.space();
                self.rest().starts_with('=') && !self.rest().starts_with("==")
            });
            if let Some(key) = named {
                self.sign("=");
                let value = self.ternary()?;
                map.insert(key, value);
            } else {
                self.at = start;
                places.push(self.ternary()?);
            }
            if !self.sign(",") {
                if self.sign(")") {
                    break;
                }
                return None;
            }
        }
        if !places.is_empty() {
            map.insert("_args_".to_owned(), Value::Array(places));
        }
        Some(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let mut lookup = |id: &str| match id {
            "a" => Ok(json!([1, 2])),
            "net" => Ok(json!({ "_target_": "UNet" })),
            "n#k" | "n::k" => Ok(json!(7)),
            "loop" => Err("a cycle".to_owned()),
            _ => Ok(unknown(id)),
        };
        value(text, &mut lookup).map_or_else(|e| e, |v| v.to_string())
    }

    #[test]
    fn plain_expressions_are_worked_out() {
        for (text, expected) in [
            ("[1.5, 1.5, 1.5] if @n#k else [3.0]", "[1.5,1.5,1.5]"),
            ("(not @n::k)", "false"),
            ("not not @n::k", "true"),
            ("@a + [3] * 2", "[1,2,3,3]"),
            ("len(@a) + 1", "3"),
            ("'x' + \"/y\"", "\"x/y\""),
            ("2 * (3 + 4) // 5 - 1", "1"),
            ("7 % 4 / 2", "1.5"),
            ("-1e-3", "-0.001"),
            ("@a[-1]", "2"),
            ("{'k': (1, 2)}['k']", "[1,2]"),
            ("1 < 2 and 2 >= 2", "true"),
            ("@net.to(@device)", r#"{"_target_":"UNet"}"#),
            ("int(2.7)", "2"),
            ("max(3, 4)", "4"),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_call_names_what_would_be_called() {
        assert_eq!(
            of("m.resnet50(n=1, s=[2,2,1], p=torch.float32)"),
            r#"{"_target_":"m.resnet50","n":1,"s":[2,2,1],"p":{"_unknown_":"torch.float32"}}"#
        );
        assert_eq!(
            of("f(@net, 3, False, None)"),
            r#"{"_target_":"f","_args_":[{"_target_":"UNet"},3,false,null]}"#
        );
        assert_eq!(
            of("@net.set(score=0.02)"),
            r#"{"_target_":"set","score":0.02}"#
        );
    }

    #[test]
    fn what_is_not_plain_stays_unknown_and_is_never_run() {
        for text in [
            "__import__('os').system('x')",
            "lambda x: x",
            "[i for i in @a]",
            "2 ** 999999",
            "'a' * 9999999999",
            "open('/etc/passwd').read()",
            "@a[7]",
            "1 if torch.cuda.is_available() else 2",
            "torch.cuda.device_count() == 1",
            "not f(1)",
            "len(@net)",
            "@net['_target_']",
            "1 +",
            "(((",
            "1 / 0",
            "torch.cuda.is_available()",
            "",
            "\u{1f600}",
            "'x\\'",
        ] {
            let said = of(text);
            assert!(
                said.contains("_unknown_") || said.contains("_target_"),
                "{text}: {said}"
            );
        }
        assert!(of(&"(".repeat(4000)).contains("_unknown_"));
        assert!(of(&"not ".repeat(1000)).contains("_unknown_"));
        assert!(of(&"-".repeat(4000)).contains("_unknown_"));
        assert!(of(&"1+".repeat(40_000)).contains("_unknown_"));
        assert_eq!(of("@loop + 1"), "a cycle");
    }
}
