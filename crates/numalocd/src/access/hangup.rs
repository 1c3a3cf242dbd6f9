//! Ends connections from where their calls are answered.

use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Ends a connection. Clones end the same one.
#[derive(Clone, Debug)]
pub struct Hangup(Arc<Mutex<Option<oneshot::Sender<()>>>>);

/// Attached by our listeners to each request of a connection.
#[derive(Clone, Debug)]
pub struct Via<P> {
    pub peer: P,
    /// Closes the connection from within a request.
    pub hangup: Hangup,
}

impl Hangup {
    /// One for a connection, which has to end when the other part is ready, and to keep the first one until then.
    pub fn pair() -> (Self, oneshot::Receiver<()>) {
        let (sender, hung_up) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), hung_up)
    }

    /// Ends it, with all calls that are under way in it.
    pub fn now(&self) {
        let sender = self.0.lock().take();
        if let Some(sender) = sender {
            // It may have ended on its own.
            let _ = sender.send(());
        }
    }
}
