//! The opcodes of pickle protocols 2 to 5 that data needs. Nothing is imported and nothing is called:
//! a name from a module is a word, and only the few words of `names` become tensors, arrays and numbers.

use super::heap::{Heap, Value};
use super::names;

/// Values on the stack and in the memo at once.
const MOST_STACK: usize = 4_000_000;

/// A pickle being read.
struct Machine<'a> {
    rest: &'a [u8],
    heap: &'a mut Heap,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
}

/// Reads one pickle; its value and how many bytes it took.
pub(super) fn read(bytes: &[u8], heap: &mut Heap) -> Result<(Value, usize), String> {
    let mut m = Machine {
        rest: bytes,
        heap,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
    };
    let mut place = 0;
    loop {
        let code = m.byte()?;
        if code == b'.' {
            let value = m.pop()?;
            return Ok((value, bytes.len() - m.rest.len()));
        }
        m.step(code)
            .map_err(|reason| format!("{reason} (byte {place} of its pickle)"))?;
        place = bytes.len() - m.rest.len();
    }
}

impl<'a> Machine<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or_else(|| {
            format!(
                "it ends early: {n} more bytes were expected, {} are there",
                self.rest.len()
            )
        })?;
        self.rest = tail;
        Ok(head)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.take(1).map(|b| b.first().copied().unwrap_or(0))
    }

    /// A length or an index of `n` bytes, little-endian.
    fn size(&mut self, n: usize) -> Result<usize, String> {
        let mut wide = [0u8; 8];
        for (to, from) in wide.iter_mut().zip(self.take(n)?) {
            *to = *from;
        }
        usize::try_from(u64::from_le_bytes(wide))
            .map_err(|_too_large| "a length is past this machine's memory".to_owned())
    }

    fn push(&mut self, v: Value) -> Result<(), String> {
        if self.stack.len() >= MOST_STACK {
            return Err(format!("it stacks more than {MOST_STACK} values"));
        }
        self.stack.push(v);
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, String> {
        if self.marks.last().is_some_and(|m| *m >= self.stack.len()) {
            return Err("it takes a value past a mark".to_owned());
        }
        self.stack
            .pop()
            .ok_or_else(|| "it takes a value from an empty stack".to_owned())
    }

    fn top(&self) -> Result<Value, String> {
        self.stack
            .last()
            .copied()
            .ok_or_else(|| "it looks at an empty stack".to_owned())
    }

    fn mark(&mut self) -> Result<(), String> {
        if self.marks.len() >= MOST_STACK {
            return Err(format!("it sets more than {MOST_STACK} marks"));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn since_mark(&mut self) -> Result<Vec<Value>, String> {
        let at = self
            .marks
            .pop()
            .ok_or_else(|| "it goes back to a mark that was not set".to_owned())?;
        Ok(self.stack.split_off(at.min(self.stack.len())))
    }

    fn keep(&mut self, at: usize) -> Result<(), String> {
        let value = self.top()?;
        if at >= MOST_STACK {
            return Err(format!("it remembers more than {MOST_STACK} values"));
        }
        // Pickles number what they remember from 0 without gaps: a far index is not one of theirs.
        if at > self.memo.len().saturating_mul(2).saturating_add(1024) {
            return Err(format!(
                "it remembers value {at} after {} values",
                self.memo.len()
            ));
        }
        if at >= self.memo.len() {
            self.memo.resize(at + 1, None);
        }
        if let Some(slot) = self.memo.get_mut(at) {
            *slot = Some(value);
        }
        Ok(())
    }

    fn recall(&mut self, at: usize) -> Result<(), String> {
        let value = self
            .memo
            .get(at)
            .copied()
            .flatten()
            .ok_or_else(|| format!("it recalls value {at}, which it did not remember"))?;
        self.push(value)
    }

    fn text(&mut self, n: usize) -> Result<(), String> {
        let bytes = self.take(n)?;
        // Python writes lone surrogates that are not UTF-8.
        let text = String::from_utf8_lossy(bytes).into_owned();
        let v = self.heap.new_str(text)?;
        self.push(v)
    }

    fn bytes(&mut self, n: usize) -> Result<(), String> {
        let bytes = self.take(n)?.to_vec();
        let v = self.heap.new_bytes(bytes)?;
        self.push(v)
    }

    fn long(&mut self, n: usize) -> Result<(), String> {
        let bytes = self.take(n)?;
        let v = if n > 8 {
            Value::Big
        } else {
            let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
            let mut wide = [if negative { 0xff } else { 0 }; 8];
            for (to, from) in wide.iter_mut().zip(bytes) {
                *to = *from;
            }
            Value::Int(i64::from_le_bytes(wide))
        };
        self.push(v)
    }

    fn line(&mut self) -> Result<String, String> {
        let n = self
            .rest
            .iter()
            .take(4096)
            .position(|b| *b == b'\n')
            .ok_or_else(|| "a name in it has no end".to_owned())?;
        let text = String::from_utf8_lossy(self.take(n)?).into_owned();
        self.byte()?;
        Ok(text)
    }

    fn global(&mut self, module: String, name: String) -> Result<(), String> {
        names::known(&module, &name)?;
        self.heap.room(1)?;
        self.heap.globals.push((module, name));
        self.push(Value::Global(self.heap.globals.len() - 1))
    }

    fn step(&mut self, code: u8) -> Result<(), String> {
        match code {
            // What frames and protocol numbers say changes nothing here.
            0x80 => self.protocol(),
            0x95 => self.take(8).map(|_length| ()),
            b'(' => self.mark(),
            b'0' => self.pop_or_mark(),
            b'1' => self.since_mark().map(|_values| ()),
            b'2' => self.top().and_then(|v| self.push(v)),
            b'q' => self.size(1).and_then(|at| self.keep(at)),
            b'r' => self.size(4).and_then(|at| self.keep(at)),
            0x94 => self.keep(self.memo.len()),
            b'h' => self.size(1).and_then(|at| self.recall(at)),
            b'j' => self.size(4).and_then(|at| self.recall(at)),
            _ => self.plain(code),
        }
    }

    fn protocol(&mut self) -> Result<(), String> {
        match self.byte()? {
            2..=5 => Ok(()),
            n => Err(format!("pickle protocol 2 to 5 was expected, found {n}")),
        }
    }

    fn pop_or_mark(&mut self) -> Result<(), String> {
        if self.marks.last().is_some_and(|m| *m == self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(|_value| ())
    }

    /// Numbers and texts.
    fn plain(&mut self, code: u8) -> Result<(), String> {
        match code {
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'J' => self.int32(),
            b'K' => self.unsigned(1),
            b'M' => self.unsigned(2),
            0x8a => self.size(1).and_then(|n| self.long(n)),
            0x8b => self.size(4).and_then(|n| self.long(n)),
            b'G' => self.double(),
            b'X' => self.size(4).and_then(|n| self.text(n)),
            0x8c => self.size(1).and_then(|n| self.text(n)),
            0x8d => self.size(8).and_then(|n| self.text(n)),
            b'T' => self.size(4).and_then(|n| self.text(n)),
            b'U' => self.size(1).and_then(|n| self.text(n)),
            b'B' => self.size(4).and_then(|n| self.bytes(n)),
            b'C' => self.size(1).and_then(|n| self.bytes(n)),
            0x8e | 0x96 => self.size(8).and_then(|n| self.bytes(n)),
            _ => self.gather(code),
        }
    }

    fn int32(&mut self) -> Result<(), String> {
        let b = self.take(4)?;
        let v = b.try_into().map_or(0, i32::from_le_bytes);
        self.push(Value::Int(v.into()))
    }

    fn unsigned(&mut self, n: usize) -> Result<(), String> {
        let v = self.size(n)?;
        self.push(Value::Int(i64::try_from(v).unwrap_or(i64::MAX)))
    }

    fn double(&mut self) -> Result<(), String> {
        let b = self.take(8)?;
        let v = b.try_into().map_or(0.0, f64::from_be_bytes);
        self.push(Value::Float(v))
    }

    /// Lists, tuples, dictionaries, sets.
    fn gather(&mut self, code: u8) -> Result<(), String> {
        match code {
            b']' | b')' | 0x8f => self.seq(Vec::new()),
            b'l' | b't' | 0x91 => {
                let items = self.since_mark()?;
                self.seq(items)
            }
            0x85..=0x87 => {
                let mut items = Vec::new();
                for _ in 0x85..=code {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.seq(items)
            }
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item])
            }
            b'e' | 0x90 => {
                let items = self.since_mark()?;
                self.extend(items)
            }
            b'}' => self.dict(Vec::new()),
            b'd' => {
                let items = self.since_mark()?;
                self.dict(pairs(&items)?)
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(&[key, value])
            }
            b'u' => {
                let items = self.since_mark()?;
                self.set(&items)
            }
            _ => self.named(code),
        }
    }

    fn seq(&mut self, items: Vec<Value>) -> Result<(), String> {
        let v = self.heap.new_seq(items)?;
        self.push(v)
    }

    fn dict(&mut self, items: Vec<(Value, Value)>) -> Result<(), String> {
        let v = self.heap.new_dict(items)?;
        self.push(v)
    }

    fn extend(&mut self, items: Vec<Value>) -> Result<(), String> {
        self.heap.room(items.len())?;
        match self.top()? {
            Value::Seq(at) => {
                if let Some(list) = self.heap.seqs.get_mut(at) {
                    list.extend(items);
                }
                Ok(())
            }
            other => Err(format!(
                "it appends to {}, expected a list",
                self.heap.kind(other)
            )),
        }
    }

    fn set(&mut self, items: &[Value]) -> Result<(), String> {
        self.heap.room(items.len())?;
        let items = pairs(items)?;
        match self.top()? {
            Value::Dict(at) => {
                if let Some(dict) = self.heap.dicts.get_mut(at) {
                    dict.extend(items);
                }
                Ok(())
            }
            other => Err(format!(
                "it sets a key of {}, expected a dictionary",
                self.heap.kind(other)
            )),
        }
    }

    /// Names from modules and what is made with them.
    fn named(&mut self, code: u8) -> Result<(), String> {
        match code {
            b'c' => {
                let module = self.line()?;
                let name = self.line()?;
                self.global(module, name)
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (self.heap.str(module), self.heap.str(name)) {
                    (Some(m), Some(n)) => self.global(m.to_owned(), n.to_owned()),
                    _ => Err("it names something without words".to_owned()),
                }
            }
            b'R' | 0x81 => {
                let (args, function) = (self.pop()?, self.pop()?);
                let made = names::make(self.heap, function, args)?;
                self.push(made)
            }
            b'b' => {
                let (state, object) = (self.pop()?, self.pop()?);
                let object = names::fill(self.heap, object, state)?;
                self.push(object)
            }
            b'Q' => {
                let id = self.pop()?;
                let storage = names::storage(self.heap, id)?;
                self.push(storage)
            }
            _ => Err(refused(code)),
        }
    }
}

fn pairs(items: &[Value]) -> Result<Vec<(Value, Value)>, String> {
    if !items.len().is_multiple_of(2) {
        return Err("a dictionary in it has a key without a value".to_owned());
    }
    Ok(items
        .chunks_exact(2)
        .filter_map(|kv| Some((*kv.first()?, *kv.get(1)?)))
        .collect())
}

fn refused(code: u8) -> String {
    let name = match code {
        b'I' => "INT",
        b'L' => "LONG",
        b'F' => "FLOAT",
        b'S' => "STRING",
        b'V' => "UNICODE",
        b'P' => "PERSID",
        b'i' => "INST",
        b'o' => "OBJ",
        b'p' => "PUT",
        b'g' => "GET",
        0x82..=0x84 => "EXT",
        0x92 => "NEWOBJ_EX",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => "unknown",
    };
    format!(
        "it holds the pickle opcode {name} (0x{code:02x}), which is not one of those that data needs; only tensors, dictionaries, lists, texts and numbers are read"
    )
}
