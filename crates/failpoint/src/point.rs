//! The places.

/// Declares the points with their names and sites.
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident, $name:literal, $site:ident;)*) => {
        /// A place in the code of a turn.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Point {
            $($(#[$doc])* $point,)*
        }

        #[cfg(feature = "enabled")]
        impl Point {
            pub const ALL: &[Self] = &[$(Self::$point,)*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$point => $name,)* }
            }

            /// What the code does there.
            pub fn site(self) -> Site {
                match self { $(Self::$point => Site::$site,)* }
            }
        }
    };
}

points! {
    /// The commit that stores the message and starts the run.
    BeforeStart, "before-start", Write;
    AfterStart, "after-start", Write;
    /// The row of a message that has to wait.
    BeforeEnqueue, "before-enqueue", Write;
    AfterEnqueue, "after-enqueue", Write;
    /// A commit in the middle of a turn.
    BeforeStep, "before-step", Write;
    AfterStep, "after-step", Write;
    /// The commit that ends the run.
    BeforeFinish, "before-finish", Write;
    AfterFinish, "after-finish", Write;
    /// Text of an answer under way.
    BeforeDraft, "before-draft", Write;
    AfterDraft, "after-draft", Write;
    /// A message leaves the queue without having run.
    BeforeWithdraw, "before-withdraw", Write;
    AfterWithdraw, "after-withdraw", Write;
    /// A call is recorded before it begins.
    BeforeLedger, "before-ledger", Write;
    AfterLedger, "after-ledger", Write;
    /// The runs of owners that are gone change their owner.
    BeforeTakeOver, "before-take-over", Write;
    AfterTakeOver, "after-take-over", Write;
    BeforeHeartbeat, "before-heartbeat", Write;
    AfterHeartbeat, "after-heartbeat", Write;
    /// The session, a part of it, or a fact of it is read.
    BeforeLoad, "before-load", Read;
    AfterLoad, "after-load", Read;
    /// A queued run looks whether it is the first.
    QueuePosition, "queue-position", Read;
    /// The message of a queued run that was taken over is read.
    QueuedPayload, "queued-payload", Read;
    /// A run that was taken over is looked up.
    OrphanLookup, "orphan-lookup", Read;
    /// A turn is about to store what settles the past, with its message.
    BeforeOpening, "before-opening", Pass;
    AfterOpening, "after-opening", Pass;
    /// A turn that was cut off goes on.
    BeforeResume, "before-resume", Pass;
    AfterResume, "after-resume", Pass;
    /// The request is built and is sent now.
    ModelRequest, "model-request", Model;
    /// A piece of the answer was received and not shown.
    ModelPiece, "model-piece", Model;
    /// The whole answer was received and not stored.
    ModelEnd, "model-end", Model;
    /// An event is about to be shown; a whole one is stored.
    BeforeShow, "before-show", BlockingPass;
    AfterShow, "after-show", BlockingPass;
    BeforeToolCall, "before-tool-call", Tool;
    AfterToolCall, "after-tool-call", Tool;
    /// The writer of SQLite has jobs and no transaction.
    BeforeBegin, "before-begin", BlockingWrite;
    BeforeCommit, "before-commit", BlockingWrite;
    /// The transaction is durable, and nobody was told.
    AfterCommit, "after-commit", BlockingWrite;
}

/// What the code does at a point: which faults can happen there.
#[cfg(feature = "enabled")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// It stores. After it, an error means that the acknowledgement was lost.
    Write,
    /// It stores, on the thread of a writer.
    BlockingWrite,
    Read,
    Model,
    Tool,
    /// Nothing can fail.
    Pass,
    /// Nothing can fail, and nothing is awaited.
    BlockingPass,
}

#[cfg(feature = "enabled")]
impl Site {
    pub fn can_fail(self) -> bool {
        !matches!(self, Self::Pass | Self::BlockingPass)
    }

    pub fn can_be_full(self) -> bool {
        matches!(self, Self::Write | Self::BlockingWrite)
    }

    /// Whether a delay blocks the thread.
    pub fn is_blocking(self) -> bool {
        matches!(self, Self::BlockingWrite | Self::BlockingPass)
    }
}

/// No point has this name.
#[cfg(feature = "enabled")]
#[derive(Debug)]
pub struct UnknownPoint(pub String);

#[cfg(feature = "enabled")]
impl std::fmt::Display for UnknownPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no fail point named {}", self.0)
    }
}

#[cfg(feature = "enabled")]
impl std::error::Error for UnknownPoint {}

#[cfg(feature = "enabled")]
impl std::str::FromStr for Point {
    type Err = UnknownPoint;

    fn from_str(name: &str) -> Result<Self, UnknownPoint> {
        let found = Self::ALL.iter().copied().find(|point| point.name() == name);
        found.ok_or_else(|| UnknownPoint(name.to_owned()))
    }
}

#[cfg(feature = "enabled")]
impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
