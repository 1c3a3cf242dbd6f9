use super::*;
use numaloc_api::v1::migration_service_server::{MigrationService, MigrationServiceServer};
use tokio::net::UnixListener;
use tokio_stream::{Empty, wrappers::UnixListenerStream};
use tonic::{Response, transport::Server};

type Answer<T> = Result<Response<T>, Status>;

#[test]
fn addresses_are_checked() {
    for address in ["unix:///run/x", "http://127.0.0.1:7"] {
        Grpc::new(address, MARK).expect("an address");
    }
    for nonsense in ["", "x", "unix://x", "https://a:1"] {
        assert!(Grpc::new(nonsense, MARK).is_err(), "{nonsense}");
    }
}

const MARK: Mark = Mark { source: "nri", key: "numaloc.io/container-id" };

/// A daemon with these jobs.
struct Jobs(Vec<v1::Job>);

fn unused<T>() -> Answer<T> {
    Err(Status::unimplemented("not used"))
}

#[tonic::async_trait]
impl MigrationService for Jobs {
    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Answer<v1::ListJobsResponse> {
        let request = request.into_inner();
        let filter = request.filter.unwrap_or_default();
        let is_wanted = |job: &&v1::Job| {
            filter.states.contains(&job.state)
                && (filter.creator.is_empty() || filter.creator == job.creator)
                && filter.labels.iter().all(|(key, value)| job.labels.get(key) == Some(value))
        };
        let wanted: Vec<_> = self.0.iter().filter(is_wanted).cloned().collect();
        let first = request.page_token.parse().unwrap_or(0);
        let end = wanted.len().min(first + usize::try_from(request.page_size).expect("a size"));
        let next_page_token = if end < wanted.len() { end.to_string() } else { String::new() };
        let jobs = wanted[first..end].to_vec();
        Ok(Response::new(v1::ListJobsResponse { jobs, next_page_token }))
    }
    type WatchJobStream = Empty<Result<v1::WatchJobResponse, Status>>;
    async fn watch_job(&self, _: Request<v1::WatchJobRequest>) -> Answer<Self::WatchJobStream> {
        unused()
    }
    type WatchJobsStream = Empty<Result<v1::WatchJobsResponse, Status>>;
    async fn watch_jobs(&self, _: Request<v1::WatchJobsRequest>) -> Answer<Self::WatchJobsStream> {
        unused()
    }
    async fn plan_migration(
        &self,
        _: Request<v1::PlanMigrationRequest>,
    ) -> Answer<v1::PlanMigrationResponse> {
        unused()
    }
    async fn create_job(&self, _: Request<v1::CreateJobRequest>) -> Answer<v1::CreateJobResponse> {
        unused()
    }
    async fn get_job(&self, _: Request<v1::GetJobRequest>) -> Answer<v1::GetJobResponse> {
        unused()
    }
    async fn cancel_job(&self, _: Request<v1::CancelJobRequest>) -> Answer<v1::CancelJobResponse> {
        unused()
    }
    async fn pause_job(&self, _: Request<v1::PauseJobRequest>) -> Answer<v1::PauseJobResponse> {
        unused()
    }
    async fn resume_job(&self, _: Request<v1::ResumeJobRequest>) -> Answer<v1::ResumeJobResponse> {
        unused()
    }
    async fn delete_job(&self, _: Request<v1::DeleteJobRequest>) -> Answer<v1::DeleteJobResponse> {
        unused()
    }
}

/// A job that has not ended, with the labels of a job of this plugin's for container `c`.
fn job(number: usize, creator: &str) -> v1::Job {
    let labels = [(MANAGED, MARK.source), (MARK.key, "c")];
    v1::Job {
        name: format!("jobs/{number}"),
        state: v1::JobState::Queued.into(),
        creator: creator.to_owned(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..v1::Job::default()
    }
}

#[tokio::test]
async fn jobs_of_others_neither_hide_nor_become_those_that_a_container_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).expect("a socket");
    // Two pages of each, and the plugin's own come last.
    let most = usize::try_from(PAGE).expect("a number") + 1;
    let creators = [("uid:1000", 0..most), ("uid:0", most..2 * most)];
    let jobs =
        creators.into_iter().flat_map(|(creator, numbers)| numbers.map(move |of| job(of, creator)));
    let mut jobs: Vec<_> = jobs.collect();
    jobs.push(v1::Job { state: v1::JobState::Succeeded.into(), ..job(2 * most, "uid:0") });
    let server = Server::builder().add_service(MigrationServiceServer::new(Jobs(jobs)));
    tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));

    let endpoint = format!("unix://{}", socket.display());
    let channel = Grpc::new(&endpoint, MARK).expect("an address").endpoint.connect().await;
    let channel = channel.expect("it listens");
    let open = open_jobs(channel, "uid:0".to_owned(), job(0, "").labels).await.expect("a list");
    assert_eq!(open.len(), most, "all pages, without the job that has ended");
    assert!(open.iter().all(|job| job.creator == "uid:0"));
}
