//! Defines defects of the protocol. The search must find each of them.

use lakh::decide::{End, Input, Stage};

/// A step that is omitted, too early, or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// A finalizer is removed as soon as its Pod has ended.
    FreedWhenEnded,
    /// A finalizer is removed while the status write that names its Pod is in flight.
    FreedWhenNamed,
    /// A UID moves into the counter while the finalizer is on.
    CountedWhenNamed,
    /// A UID moves into the counter once the removal was requested.
    CountedWhenAsked,
    /// A Pod that is gone is not counted.
    GoneIsNotCounted,
    /// A UID stays on the list after it was counted.
    CountedStaysListed,
    /// The server accepts a status based on a version that is not the last.
    StaleStatusIsTaken,
    /// A status write that the server refused counts as written.
    RefusedIsWritten,
    /// A Pod is not named again after its status write failed.
    NotNamedAgain,
    /// A removal without a response counts as done.
    LostRemovalIsDone,
    /// A removal without a response is not requested again.
    LostRemovalIsForgotten,
    /// A starting controller ignores the list that it finds.
    ListForgottenAtStart,
    /// A starting controller decides before it has listed the Pods.
    StartsWithoutPods,
    /// A controller continues with its own status though the server has another one.
    OthersStatusIgnored,
    /// A controller that starts anew keeps the earlier stages.
    RenewKeepsStages,
    /// A Pod on the list that turns out to have succeeded is named again.
    ListedIsNamedAgain,
    /// A Pod found on the list counts as one that has just ended.
    WasListedIsNew,
    /// A finalizer counts as removed because the Pod is gone, and as present again by an older event.
    NotFoundHasNoVersion,
    /// A Pod that is to go uncounted loses its finalizer though it has changed.
    StoppedGoesThoughChanged,
}

impl Defect {
    pub(crate) const ALL: [Self; 19] = [
        Self::FreedWhenEnded,
        Self::FreedWhenNamed,
        Self::CountedWhenNamed,
        Self::CountedWhenAsked,
        Self::GoneIsNotCounted,
        Self::CountedStaysListed,
        Self::StaleStatusIsTaken,
        Self::RefusedIsWritten,
        Self::NotNamedAgain,
        Self::LostRemovalIsDone,
        Self::LostRemovalIsForgotten,
        Self::ListForgottenAtStart,
        Self::StartsWithoutPods,
        Self::OthersStatusIgnored,
        Self::RenewKeepsStages,
        Self::ListedIsNamedAgain,
        Self::WasListedIsNew,
        Self::NotFoundHasNoVersion,
        Self::StoppedGoesThoughChanged,
    ];

    /// The table of stages with this defect.
    pub(crate) fn after(self, stage: Stage, input: Input) -> Stage {
        match (self, stage, input) {
            (Self::ListedIsNamedAgain, Stage::Listed(End::Failure), Input::Seen) => {
                Stage::Ended(End::Failure)
            }
            (Self::WasListedIsNew, _, Input::WasListed(end)) => Stage::Ended(end),
            _ => stage.after(input),
        }
    }
}
