//! Headers in the tail of a record of Kafka.

use kafka::read::{Malformed, Reader};
use kafka::write;

use crate::properties::{Entry, Layout, Names, Properties, Unreadable};
use crate::scalar::Scalar;

impl From<Malformed> for Unreadable {
    fn from(_: Malformed) -> Self {
        Self
    }
}

/// Finds the headers that are named. Hot path.
pub(crate) fn find(record: &[u8], names: &Names, entries: &mut Vec<Entry>) -> Result<Layout, Unreadable> {
    let end = u32::try_from(record.len()).map_err(|_| Unreadable)?;
    let mut reader = Reader::new(record, true);
    let at = |reader: &Reader<'_>| end - reader.rest().len() as u32;
    field(&mut reader)?;
    field(&mut reader)?;
    let start = at(&reader);
    let count = u32::try_from(reader.varint(HEADERS)?).map_err(|_| Unreadable)?;
    let entries_start = at(&reader);
    for _ in 0..count {
        let start = at(&reader);
        let name = field(&mut reader)?.ok_or(Unreadable)?;
        let value = at(&reader);
        field(&mut reader)?;
        if let Some(slot) = names.find(name) {
            entries.push(Entry { slot, start, value, end: at(&reader) });
        }
    }
    match reader.rest() {
        [] => Ok(Layout { start, entries_start, entries_end: end, end, count, is_long: false }),
        _ => Err(Unreadable),
    }
}

/// What stands behind its length; `None` where the length is -1.
fn field<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match reader.varint(HEADERS)? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_negative| Malformed(HEADERS))?;
            reader.take(length, HEADERS).map(Some)
        }
    }
}

/// The value of a header, from its length on.
pub(crate) fn header_value(encoded: &[u8]) -> Scalar<'_> {
    match field(&mut Reader::new(encoded, true)) {
        Ok(Some(bytes)) => Scalar::of_bytes(bytes),
        Ok(None) | Err(_) => Scalar::Null,
    }
}

/// Appends the record with its headers as they are by now.
pub(crate) fn rewrite(properties: &Properties, record: &[u8], names: &Names, out: &mut Vec<u8>) {
    let Layout { start, entries_start, .. } = properties.layout;
    out.extend_from_slice(&record[..start as usize]);
    let count_at = out.len();
    // Room for a count of one byte, as nearly all are.
    out.push(0);
    let (count, _) = properties.splice(record, entries_start, names, out);
    let mut encoded = Vec::new();
    // Each takes a byte at least, and a record has less than 2 GiB.
    write::varint(&mut encoded, count as i32);
    match encoded[..] {
        [short] => out[count_at] = short,
        _ => drop(out.splice(count_at..=count_at, encoded)),
    }
}

const HEADERS: &str = "record";

#[cfg(test)]
mod tests {
    use connect::event::Encoding;
    use kafka::record_tail::RecordTail;
    use proptest::prelude::*;

    use super::*;
    use crate::properties::Slot;
    use crate::scalar::write_field;

    type Header = (String, Option<Vec<u8>>);

    fn tail(key: Option<&[u8]>, value: &[u8], headers: &[Header]) -> Vec<u8> {
        let mut out = Vec::new();
        let put = |out: &mut Vec<u8>, bytes: Option<&[u8]>| match bytes {
            Some(bytes) => write_field(out, bytes),
            None => write::varint(out, -1),
        };
        put(&mut out, key);
        put(&mut out, Some(value));
        write::varint(&mut out, headers.len() as i32);
        for (name, value) in headers {
            put(&mut out, Some(name.as_bytes()));
            put(&mut out, value.as_deref());
        }
        out
    }

    fn headers(record: &[u8]) -> Vec<Header> {
        let read = RecordTail::read(record).expect("a whole record");
        let mut headers: Vec<Header> =
            read.headers.iter().map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect();
        headers.sort();
        headers
    }

    #[test]
    fn all_headers_of_a_name_are_renamed_and_the_last_one_is_the_value() {
        let header = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
        let record = tail(Some(b"key"), b"value", &[header("a", "1"), header("c", "x"), header("a", "2")]);
        let mut names = Names::default();
        let (a, b) = (names.slot("a").unwrap(), names.slot("b").unwrap());
        let mut properties = Properties::default();
        properties.read(&record, Encoding::Kafka, &names).unwrap();
        assert_eq!(properties.value(a, &record), Scalar::Text(b"2"));
        properties.rename(&[(a, b)]);
        assert_eq!(properties.value(b, &record), Scalar::Text(b"2"));
        assert_eq!(properties.value(a, &record), Scalar::Null);
        let mut out = Vec::new();
        properties.rewrite(&record, &names, &mut out);
        assert_eq!(headers(&out), [header("b", "1"), header("b", "2"), header("c", "x")]);
        assert_eq!(
            RecordTail::read(&out).map(|tail| (tail.key, tail.value)),
            Ok((Some(&b"key"[..]), Some(&b"value"[..])))
        );
    }

    proptest! {
        #[test]
        fn what_is_written_reads_as_what_was_read_and_changed(
            all in proptest::collection::vec(("[a-d]", proptest::option::of(proptest::collection::vec(any::<u8>(), 0..70))), 0..80),
            key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
            from in "[a-d]", to in "[a-d]", dropped in "[a-d]", number: i64,
        ) {
            let record = tail(key.as_deref(), b"value", &all);
            let mut names = Names::default();
            let [from_slot, to_slot, drop_slot, new] =
                [&*from, &*to, &*dropped, "new"].map(|name| names.slot(name).unwrap());
            let mut properties = Properties::default();
            properties.read(&record, Encoding::Kafka, &names).unwrap();
            properties.rename(&[(from_slot, to_slot)]);
            properties.drop(drop_slot);
            let content = properties.write(Scalar::Int(number));
            properties.set(new, content);
            let mut out = Vec::new();
            properties.rewrite(&record, &names, &mut out);

            let mut expected = all;
            if from != to && expected.iter().any(|(name, _)| *name == from) {
                expected.retain(|(name, _)| *name != to);
                expected.iter_mut().filter(|(name, _)| *name == from).for_each(|(name, _)| name.clone_from(&to));
            }
            expected.retain(|(name, _)| *name != dropped);
            expected.push(("new".to_owned(), Some(number.to_string().into_bytes())));
            expected.sort();
            prop_assert_eq!(headers(&out), expected);
            prop_assert_eq!(RecordTail::read(&out).unwrap().key, key.as_deref());
        }

        #[test]
        fn any_bytes_are_read_or_refused(record: Vec<u8>) {
            let mut names = Names::default();
            names.slot("a");
            let mut properties = Properties::default();
            if properties.read(&record, Encoding::Kafka, &names).is_ok() {
                let _ = properties.value(Slot(0), &record);
                properties.drop(Slot(0));
                properties.rewrite(&record, &names, &mut Vec::new());
            }
        }
    }
}
