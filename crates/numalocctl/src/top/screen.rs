//! The terminal: taken over, drawn on, and given back whatever happens.

use crate::{exit::Failure, signals};
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    buffer::Buffer,
    crossterm::{
        cursor::Show,
        event::{DisableMouseCapture, EnableMouseCapture},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use std::{
    io::{self, IsTerminal, Stdout, stdin, stdout},
    panic,
    sync::atomic::{
        AtomicBool,
        Ordering::{Relaxed, SeqCst},
    },
    thread,
    time::Duration,
};

/// A terminal that was taken over. It is as before once this value is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// There is none.
    pub fn open() -> Result<Self, Failure> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            let message =
                "top draws on a terminal, and there is none: -b prints tables, CSV or JSON instead";
            return Err(Failure::Usage(message.into()));
        }
        leave_when_hung_up()?;
        // Only the thread that draws knows that the terminal was taken over. Other threads report their panics to the
        // view.
        let (drawing, before) = (thread::current().id(), panic::take_hook());
        panic::set_hook(Box::new(move |info| {
            if thread::current().id() == drawing {
                restore();
                before(info);
            }
        }));
        Self::take_over().inspect_err(|_| restore()).map_err(Failure::Output)
    }

    fn take_over() -> io::Result<Self> {
        TAKEN.store(true, SeqCst);
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, EnableMouseCapture)?;
        Ok(Self { terminal: Terminal::new(CrosstermBackend::new(stdout()))? })
    }

    /// Draws a picture, as large as the terminal is now.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| picture(frame.buffer_mut())).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether the terminal is to be given back.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Gives the terminal back, once: doing it again would put the cursor where it was before, over what a panic has
/// printed since. Where the terminal has gone, there is nothing to give back.
fn restore() {
    if !TAKEN.swap(false, SeqCst) {
        return;
    }
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Ends this program soon after its terminal has gone (SIGHUP). Reads of a terminal that has gone say "nothing" at
/// once, which the reader of keys takes for a reason to read again, forever: so a thread has to end it.
fn leave_when_hung_up() -> Result<(), Failure> {
    const OFTEN: Duration = Duration::from_millis(200);
    let gone = signals::hung_up()?;
    thread::spawn(move || {
        while !gone.load(Relaxed) {
            thread::sleep(OFTEN);
        }
        std::process::exit(0);
    });
    Ok(())
}
