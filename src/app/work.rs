//! Jobs of the program: what each thread does, what it sends back, and how the state takes it in.

use super::effect::JobRequest;
use super::state::{Severity, State};
use crate::jobs::{Job, Outbox, Waker, spawn};

/// A row of the jobs list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Unique within the session.
    pub id: u64,
    /// What it does.
    pub name: String,
    /// Steps done.
    pub done: u64,
    /// Steps in all; 0 while unknown.
    pub total: u64,
    /// Whether a stop was asked for.
    pub cancelling: bool,
}

/// What a job sends back.
#[derive(Debug)]
pub(super) enum News {
    /// Something was done.
    Said(Severity, String, String),
}

#[derive(Debug)]
struct Running {
    id: u64,
    job: Job<News>,
}

/// The running jobs.
#[derive(Debug)]
pub(super) struct Jobs {
    wake: Waker,
    running: Vec<Running>,
}

impl Jobs {
    pub(super) const fn new(wake: Waker) -> Self {
        Self {
            wake,
            running: Vec::new(),
        }
    }

    pub(super) fn list(&self) -> Vec<JobInfo> {
        self.running
            .iter()
            .map(|r| {
                let (done, total) = r.job.control.progress();
                JobInfo {
                    id: r.id,
                    name: r.job.name.clone(),
                    done,
                    total,
                    cancelling: r.job.control.is_cancelled(),
                }
            })
            .collect()
    }

    pub(super) fn cancel(&self, id: u64) {
        for r in self.running.iter().filter(|r| r.id == id) {
            r.job.control.cancel();
        }
    }
}

impl State {
    /// Starts a job; a system without a thread to spare is said in a message.
    pub(super) fn start(&mut self, request: JobRequest) {
        let id = self.fresh_id();
        let settings_dir = self.settings_dir.clone();
        let name = name_of(&request).to_owned();
        let work = move |_: &crate::jobs::Control, out: &Outbox<News>| {
            if let Some(news) = simple(request, &settings_dir) {
                let _closed = out.send(news);
            }
        };
        match spawn(&name, self.jobs.wake.clone(), work) {
            Ok(job) => self.jobs.running.push(Running { id, job }),
            Err(e) => {
                self.say(Severity::Error, "No thread could be started", e.to_string());
            }
        }
    }

    /// Takes in what jobs have sent; true when something changed. Call it once a frame.
    pub fn poll(&mut self) -> bool {
        let mut changed = false;
        let mut running = std::mem::take(&mut self.jobs.running);
        running.retain(|r| {
            loop {
                match r.job.poll() {
                    Ok(News::Said(severity, title, detail)) => {
                        changed = true;
                        self.say(severity, title, detail);
                    }
                    Err(std::sync::mpsc::TryRecvError::Empty) => return true,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                        changed = true;
                        return false;
                    }
                }
            }
        });
        running.append(&mut self.jobs.running);
        self.jobs.running = running;
        changed
    }
}

fn name_of(request: &JobRequest) -> &'static str {
    match request {
        JobRequest::Open(_) => "Open",
        JobRequest::Scan(_) => "Look through files",
        JobRequest::Load(_) => "Load series",
        JobRequest::Network(_) => "Read network",
        JobRequest::Run { .. } => "Run",
        JobRequest::Probe => "Look for engines",
        JobRequest::SavePlan(..) => "Save plan",
        JobRequest::Report(_) => "Write report",
        JobRequest::SaveResult(_) => "Write result",
        JobRequest::SaveVolume(_) => "Write volume",
        JobRequest::SaveSettings(_) => "Keep settings",
    }
}

fn simple(request: JobRequest, settings_dir: &super::SettingsDir) -> Option<News> {
    match request {
        JobRequest::SaveSettings(settings) => settings_dir.save(&settings).err().map(|e| {
            News::Said(
                Severity::Error,
                "Settings could not be kept".to_owned(),
                e.to_string(),
            )
        }),
        JobRequest::SavePlan(path, document) => {
            let text = serde_json::to_vec_pretty(&document).unwrap_or_default();
            Some(match super::files::write_whole("plan", &path, &text) {
                Ok(()) => News::Said(
                    Severity::Info,
                    "Plan saved".to_owned(),
                    path.display().to_string(),
                ),
                Err(e) => News::Said(Severity::Error, "The plan was not saved".to_owned(), e),
            })
        }
        _ => None,
    }
}
