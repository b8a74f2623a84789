//! Defects that are planted into the protocol, each of which the search must find.

use lakh::decide::{End, Input, Stage};

/// A step that is left out, comes too early, or is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// A finalizer goes as soon as its Pod has ended.
    FreedWhenEnded,
    /// A finalizer goes while the status write that names its Pod is under way.
    FreedWhenNamed,
    /// A UID moves into the counter while the finalizer is on.
    CountedWhenNamed,
    /// A UID moves into the counter once the removal was asked for.
    CountedWhenAsked,
    /// A Pod that is gone is not counted.
    GoneIsNotCounted,
    /// A UID stays on the list after it was counted.
    CountedStaysListed,
    /// The server takes a status that was made on a version that is not the last.
    StaleStatusIsTaken,
    /// A status write that the server refused counts as written.
    RefusedIsWritten,
    /// A Pod whose status write failed is not named again.
    NotNamedAgain,
    /// A removal that had no answer counts as done.
    LostRemovalIsDone,
    /// A removal that had no answer is not asked for again.
    LostRemovalIsForgotten,
    /// A controller that starts does not go by the list that it finds.
    ListForgottenAtStart,
    /// A controller that starts decides before it has read which Pods there are.
    StartsWithoutPods,
    /// A controller whose status is not the server's goes on with its own.
    OthersStatusIgnored,
    /// A controller that starts anew keeps the stages from before.
    RenewKeepsStages,
    /// A Pod on the list that turns out to have succeeded is named again.
    ListedIsNamedAgain,
    /// A Pod that was seen to be on the list is taken for one that ended just now.
    WasListedIsNew,
    /// A finalizer is taken to be off because the Pod is gone, and on again by older news.
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

    /// The table of stages with this defect in it.
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
