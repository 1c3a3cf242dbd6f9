//! Removing variables from the environment of a process that is just starting.

use std::{env, fs, io};

/// Removes all variables whose names begin with `prefix`, for libraries that would be misled by them. To be called first
/// thing in a program.
///
/// # Errors
/// There is more than one thread already, or that cannot be told; then nothing has been removed.
pub fn unset_environment(prefix: &str) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("the environment can be changed by a single thread only"));
    }
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(prefix.as_bytes()) {
            // SAFETY: this is the only thread of the process, so that nobody else reads or changes the environment now,
            // and no reference into it is held here: `vars_os` gives copies.
            unsafe { env::remove_var(&name) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn beside_other_threads_it_is_refused() {
        // The test harness has a thread of its own.
        let error = super::unset_environment("NUMALOC_NO_SUCH_").unwrap_err();
        assert!(error.to_string().contains("single thread"), "{error}");
    }
}
