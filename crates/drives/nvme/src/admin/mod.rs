//! The admin command set (NVMe 1.4 section 5).

mod abort;
mod command_sets;
mod context;
mod doorbell_buffers;
mod events;
mod features;
mod format;
mod identify;
mod log;
mod queues;

pub use abort::ABORT;
pub use context::{Admin, AdminCommand, AdminExecute, Commands};
pub use doorbell_buffers::DOORBELL_BUFFER_CONFIG;
pub use events::ASYNCHRONOUS_EVENT_REQUEST;
pub use features::{GET_FEATURES, SET_FEATURES};
pub use format::FORMAT_NVM;
pub use identify::IDENTIFY;
pub use log::GET_LOG_PAGE;
pub use queues::{
    CREATE_COMPLETION_QUEUE, CREATE_SUBMISSION_QUEUE, DELETE_COMPLETION_QUEUE,
    DELETE_SUBMISSION_QUEUE,
};
