//! The fail points.

/// Declares the points with their names and sites.
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident, $name:literal, $site:ident;)*) => {
        /// A named point in the code of a turn.
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

            /// The kind of code at the point.
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
    /// The commit that queues a message.
    BeforeEnqueue, "before-enqueue", Write;
    AfterEnqueue, "after-enqueue", Write;
    /// A commit in the middle of a turn.
    BeforeStep, "before-step", Write;
    AfterStep, "after-step", Write;
    /// The commit that ends the run.
    BeforeFinish, "before-finish", Write;
    AfterFinish, "after-finish", Write;
    /// A chunk of a draft is stored.
    BeforeDraft, "before-draft", Write;
    AfterDraft, "after-draft", Write;
    /// A queued message is withdrawn.
    BeforeWithdraw, "before-withdraw", Write;
    AfterWithdraw, "after-withdraw", Write;
    /// A tool call is recorded in the ledger before it starts.
    BeforeLedger, "before-ledger", Write;
    AfterLedger, "after-ledger", Write;
    /// The runs of dead owners are taken over.
    BeforeTakeOver, "before-take-over", Write;
    AfterTakeOver, "after-take-over", Write;
    BeforeHeartbeat, "before-heartbeat", Write;
    AfterHeartbeat, "after-heartbeat", Write;
    /// The session, a part of it, or a pending entry is read.
    BeforeLoad, "before-load", Read;
    AfterLoad, "after-load", Read;
    /// A queued run checks whether it is the first.
    QueuePosition, "queue-position", Read;
    /// The message of a queued run that was taken over is read.
    QueuedPayload, "queued-payload", Read;
    /// A run that was taken over is looked up.
    OrphanLookup, "orphan-lookup", Read;
    /// The first commit of a turn: settling events and the message.
    BeforeOpening, "before-opening", Pass;
    AfterOpening, "after-opening", Pass;
    /// An interrupted turn is resumed.
    BeforeResume, "before-resume", Pass;
    AfterResume, "after-resume", Pass;
    /// The request is built and about to be sent.
    ModelRequest, "model-request", Model;
    /// A chunk of the answer was received and not shown yet.
    ModelChunk, "model-chunk", Model;
    /// The whole answer was received and not stored yet.
    ModelEnd, "model-end", Model;
    /// An event is about to be shown; a complete event is stored.
    BeforeShow, "before-show", BlockingPass;
    AfterShow, "after-show", BlockingPass;
    BeforeToolCall, "before-tool-call", Tool;
    AfterToolCall, "after-tool-call", Tool;
    /// The SQLite writer is about to begin a transaction.
    BeforeBegin, "before-begin", BlockingWrite;
    BeforeCommit, "before-commit", BlockingWrite;
    /// The transaction is durable and not acknowledged yet.
    AfterCommit, "after-commit", BlockingWrite;
}

/// The kind of code at a point, which determines the possible faults.
#[cfg(feature = "enabled")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// An async write. A failure after it means that the acknowledgement was lost.
    Write,
    /// A write on the writer thread.
    BlockingWrite,
    Read,
    Model,
    Tool,
    /// Async code that cannot fail.
    Pass,
    /// Blocking code that cannot fail.
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

/// The name of an unknown point.
#[cfg(feature = "enabled")]
#[derive(Debug)]
pub struct UnknownPoint(pub String);

#[cfg(feature = "enabled")]
impl std::fmt::Display for UnknownPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown fail point {}", self.0)
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
