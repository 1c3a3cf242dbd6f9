//! Entries of the journal, by its own protocol (systemd, docs/JOURNAL_NATIVE_PROTOCOL.md). MESSAGE is the whole line, as lines on stderr
//! are: most who ship logs take nothing else. Each value is a field as well, `NUMALOC_JOB=jobs/1`, for `journalctl` to select by.

use std::{
    fmt::{self, Write as _},
    io,
    os::unix::net::UnixDatagram,
    path::Path,
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{
    Layer,
    field::RecordFields,
    fmt::{
        FormatFields,
        format::{DefaultFields, Writer},
    },
    layer::Context,
    registry::LookupSpan,
};

const SOCKET: &str = "/run/systemd/journal/socket";
/// Most bytes of a message whose entry as a whole was too large for a datagram.
const CUT: usize = 16 << 10;

/// Writes each event as an entry of the journal.
#[derive(Debug)]
pub struct Journal {
    socket: UnixDatagram,
    /// SYSLOG_IDENTIFIER of all entries.
    program: String,
}

impl Journal {
    /// # Errors
    /// No journald listens, or this process may not write to it.
    pub fn connect(program: &str) -> io::Result<Self> {
        Self::connect_to(SOCKET.as_ref(), program)
    }

    fn connect_to(path: &Path, program: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self { socket, program: program.to_owned() })
    }

    fn entry(&self, metadata: &Metadata<'_>, line: &str) -> Entry {
        let mut entry = Entry::default();
        entry.put("MESSAGE", line);
        entry.put("PRIORITY", priority(*metadata.level()));
        entry.put("SYSLOG_IDENTIFIER", &self.program);
        entry.put("TARGET", metadata.target());
        if let Some(file) = metadata.file() {
            entry.put("CODE_FILE", file);
        }
        if let Some(line) = metadata.line() {
            entry.put("CODE_LINE", &line.to_string());
        }
        entry
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Journal {
    fn on_new_span(&self, values: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Values::of(values));
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(known) = span.extensions_mut().get_mut::<Values>()
        {
            values.record(known);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = String::new();
        // It is written into a String.
        let _ = DefaultFields::new().format_fields(Writer::new(&mut line), event);
        let mut values = Values::of(event);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(Values(of_span)) = span.extensions().get::<Values>() {
                for (name, value) in of_span {
                    let _ = write!(line, " {name}={value}");
                }
                values.0.extend(of_span.iter().cloned());
            }
        }
        let mut entry = self.entry(event.metadata(), &line);
        for (name, value) in &values.0 {
            entry.put(&format!("NUMALOC_{}", name.to_ascii_uppercase()), value);
        }
        let is_too_large =
            |error: &io::Error| error.raw_os_error() == Some(nix::errno::Errno::EMSGSIZE as i32);
        // Without a journal there is no place to report it.
        if self.socket.send(&entry.0).is_err_and(|error| is_too_large(&error)) {
            let cut = (0..=CUT).rev().find(|&at| line.is_char_boundary(at));
            let line = &line[..cut.unwrap_or_default()];
            let _ = self.socket.send(&self.entry(event.metadata(), line).0);
        }
    }
}

/// The number that syslog has for a level (syslog(3)).
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        _ => "7",
    }
}

/// A datagram for journald.
#[derive(Debug, Default)]
struct Entry(Vec<u8>);

impl Entry {
    fn put(&mut self, name: &str, value: &str) {
        let is_allowed = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        self.0.extend(name.bytes().map(|byte| if is_allowed(byte) { byte } else { b'_' }));
        // A value with several lines has its length before it.
        match value.contains('\n') {
            true => {
                self.0.push(b'\n');
                self.0.extend((value.len() as u64).to_le_bytes());
            }
            false => self.0.push(b'='),
        }
        self.0.extend(value.as_bytes());
        self.0.push(b'\n');
    }
}

/// The values of an event or a span, without the message of an event.
#[derive(Debug, Default)]
struct Values(Vec<(&'static str, String)>);

impl Values {
    fn of(recorded: &impl RecordFields) -> Self {
        let mut values = Self::default();
        recorded.record(&mut values);
        values
    }
}

impl Visit for Values {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() != "message" {
            self.0.push((field.name(), value.to_owned()));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::{info, info_span, subscriber::with_default, warn};
    use tracing_subscriber::layer::SubscriberExt;

    /// The datagrams of what `log` logs.
    fn entries(log: impl FnOnce()) -> Vec<Vec<u8>> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let journald = UnixDatagram::bind(&path).expect("a socket");
        journald.set_nonblocking(true).expect("a socket");
        let journal = Journal::connect_to(&path, "numalocd").expect("it listens");
        with_default(tracing_subscriber::registry().with(journal), log);
        let mut entries = Vec::new();
        let mut bytes = vec![0; 1 << 20];
        while let Ok(length) = journald.recv(&mut bytes) {
            entries.push(bytes[..length].to_vec());
        }
        entries
    }

    fn lines(entry: &[u8]) -> Vec<&str> {
        std::str::from_utf8(entry).expect("text").lines().collect()
    }

    #[test]
    fn the_message_has_all_values_and_each_is_a_field() {
        let entries = entries(|| {
            let caller = "uid:1001";
            info!(target: "audit", caller, method = "CancelJob", calls = 7, "change refused");
            info_span!("job", job = %"jobs/1").in_scope(|| warn!(error = ?"x", "failed"));
        });
        let [refused, failed] = &entries[..] else { panic!("{entries:?}") };
        let refused = lines(refused);
        assert_eq!(
            refused[0],
            r#"MESSAGE=change refused caller="uid:1001" method="CancelJob" calls=7"#
        );
        for line in [
            "PRIORITY=6",
            "SYSLOG_IDENTIFIER=numalocd",
            "TARGET=audit",
            "NUMALOC_CALLER=uid:1001",
            "NUMALOC_METHOD=CancelJob",
            "NUMALOC_CALLS=7",
        ] {
            assert!(refused.contains(&line), "{line}: {refused:?}");
        }
        let failed = lines(failed);
        assert_eq!(failed[0], r#"MESSAGE=failed error="x" job=jobs/1"#);
        assert!(failed.contains(&"PRIORITY=4") && failed.contains(&"NUMALOC_JOB=jobs/1"));
    }

    #[test]
    fn a_value_with_several_lines_has_its_length() {
        let entries = entries(|| info!(text = "a\nb", "x"));
        let expected = b"NUMALOC_TEXT\n\x03\0\0\0\0\0\0\0a\nb\n";
        assert!(entries[0].windows(expected.len()).any(|part| part == expected), "{entries:?}");
    }

    #[test]
    fn a_line_that_is_too_large_is_cut() {
        let long = "é".repeat(4 << 20);
        let entries = entries(|| info!(text = long, "x"));
        let entry = lines(&entries[0]);
        assert!(entry[0].starts_with("MESSAGE=x text=\"é"), "{}", &entry[0][..40]);
        assert!(entry[0].len() <= CUT + "MESSAGE=".len() && entry.contains(&"PRIORITY=6"));
    }
}
