//! EventService: stored events, and events as they happen.

use super::{
    Parts,
    watch::{AT_ONCE, EventWatch, stream},
};
use crate::access::caller;
use numaloc_api::{
    encoded::{OneRecord, RecordPage, event_service_server::EventService},
    v1,
    value::WatchEvents,
};
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status, codegen::BoxStream};

#[derive(Debug)]
pub struct EventCalls(pub Parts);

#[tonic::async_trait]
impl EventService for EventCalls {
    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<RecordPage>, Status> {
        let listed = self.0.handle.whole_event_list(request.into_inner().try_into()?).await?;
        Ok(Response::new(RecordPage::new(listed.entries, listed.next)))
    }

    type WatchEventsStream = BoxStream<OneRecord>;

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let caller = caller(&request)?;
        let WatchEvents { filter, after } = request.into_inner().try_into()?;
        if let Some(after) = after {
            self.0.handle.check_cursor(after).await?;
        }
        let counted = self.0.accounts.watch(&caller.client())?;
        let handle = self.0.handle.clone();
        // A client that begins with the oldest event gets the old events that are kept; gaps among them are not an
        // error.
        let kept = *handle.last_event().borrow();
        let begin = if after == Some(0) { kept } else { 0 };
        let watch = EventWatch::new(self.0.handle.last_event(), after, move |seen| {
            let (handle, filter) = (handle.clone(), filter.clone());
            async move {
                let read = handle.whole_events_after(filter, seen, AT_ONCE).await?;
                // Checked after reading, so that the client is notified if events were removed meanwhile.
                if seen >= begin {
                    handle.check_cursor(seen).await?;
                }
                Ok(read)
            }
        });
        let answers = stream(watch, self.0.stop.clone(), counted);
        Ok(Response::new(Box::pin(answers.map(|event| Ok(event?.into())))))
    }
}
