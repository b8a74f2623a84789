//! How many writes under way still make a server faster, by how long it takes to answer.
//!
//! A server has room for a number of writes at once; those beyond it only wait there, before the
//! writes of everybody else. So now and then a few writes go alone, which tells how long one takes
//! when nothing of ours waits (`quiet`); in between as many are under way as make an answer wait for
//! [`LONGEST_WAIT`] and no longer: enough that the server never waits for us, and that it, its store and all who
//! watch it get several writes at once, each of which costs them less then (docs/wire.md). How long
//! answers wait tells, too, how long we may rest between them.
//!
//! Answers may take long for reasons that fewer writes do not help against: a machine that has no time
//! for us, or a server busy with others. If far fewer writes are answered no sooner, none of them waited
//! for another, and that is what quiet is from then on.
//!
//! Must not: heed refusals; that is the window's work.

use std::time::{Duration, Instant};

/// How long an answer may wait in line. Somebody else's write would wait there, too, unless the server gives
/// each client its turn; by default kube-apiserver does (priority and fairness).
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// How many times as long as a quiet answer one may take, however long that is.
const STRETCH: f64 = 4.0;

/// Quiet answers are not taken for quicker than this: below it, machines' own noise is measured.
const QUICKEST: Duration = Duration::from_millis(10);

/// So many go alone to find out what quiet is, and no fewer are ever allowed.
const FEW: usize = 4;

/// Answers that are needed for a conclusion.
const ENOUGH: u32 = 8;

/// What quiet is, is found out anew so often; more rarely where answers take long, so that it
/// costs a few hundredths of the time at most.
const ANEW: Duration = Duration::from_secs(10);
const ANEW_QUIETS: u32 = 100;

/// Writes are far fewer than before when they are at most this part of them.
const FAR_FEWER: f64 = 0.75;

/// Answers come no sooner when they take at least this part of the time.
const NO_SOONER: f64 = 0.9;

/// So many times in a row it has to be seen: one answer may take twice as long as the next for reasons of
/// the server's own.
const SURE: u32 = 2;

/// We may rest for this part of the time that an answer waits in line.
const RESTS: f64 = 0.75;

/// A rest is no longer than this.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// The verbs that are measured, each by itself: a creation may pass webhooks, a patch none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Patch,
    Delete,
}

impl Verb {
    /// The verb of this name, if it is measured.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "create" => Some(Self::Create),
            "patch" => Some(Self::Patch),
            "delete" => Some(Self::Delete),
            _ => None,
        }
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Pace {
    max: usize,
    size: usize,
    quiet: [Option<Duration>; 3],
    /// The slowest verb's quiet, as it was found out and not concluded since.
    slowest: Duration,
    /// Whether it is being found out what quiet is.
    looks: bool,
    looked_at: Instant,
    generation: Generation,
    sample: Sample,
    /// How long an answer waited in line, on average, in the last sample.
    waited: Duration,
    /// The last sample with more writes under way than now.
    before: Option<Before>,
    /// How many times in a row far fewer writes were answered no sooner.
    in_vain: u32,
}

/// What a sample with more writes under way has shown.
#[derive(Clone, Copy, Debug)]
struct Before {
    size: f64,
    /// How many times as long as a quiet answer one took.
    stretch: f64,
}

/// Which sample a write belongs to: what was sent before a change tells nothing of what it brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u64);

/// Answers to writes of one generation.
#[derive(Debug, Default)]
struct Sample {
    count: [u32; 3],
    took: [Duration; 3],
}

impl Sample {
    fn answers(&self) -> u32 {
        self.count.iter().sum()
    }

    fn mean(&self, verb: usize) -> Option<Duration> {
        (self.count[verb] > 0).then(|| self.took[verb] / self.count[verb])
    }
}

impl Pace {
    /// A pace for a server of which nothing is known yet.
    pub(super) fn new(max: usize, now: Instant) -> Self {
        Self {
            max,
            // Most servers have room for all: it takes less time to find out that one has not.
            size: max,
            quiet: [None; 3],
            slowest: Duration::ZERO,
            looks: true,
            looked_at: now,
            generation: Generation(0),
            sample: Sample::default(),
            waited: Duration::ZERO,
            before: None,
            in_vain: 0,
        }
    }

    /// How many writes may be under way.
    pub(super) fn allows(&self) -> usize {
        if self.looks {
            FEW.min(self.max)
        } else {
            self.size
        }
    }

    /// How long to rest between answers: not at all while it is being found out what quiet is.
    pub(super) fn rest(&self) -> Duration {
        if self.looks {
            return Duration::ZERO;
        }
        self.waited.mul_f64(RESTS).min(LONGEST_REST)
    }

    /// What a write that is sent now belongs to.
    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    /// A write of a generation was answered, after so long.
    pub(super) fn answered(
        &mut self,
        verb: Verb,
        generation: Generation,
        took: Duration,
        now: Instant,
    ) {
        if generation != self.generation {
            return;
        }
        self.sample.count[verb as usize] += 1;
        self.sample.took[verb as usize] += took;
        let answers = self.sample.answers();
        if self.looks && answers >= ENOUGH {
            self.end_look(now);
        } else if !self.looks && answers >= ENOUGH.max(u32::try_from(self.size).unwrap_or(u32::MAX))
        {
            let knows = self.adapt();
            let old = now.duration_since(self.looked_at) >= self.look_period();
            self.looks = old || !knows;
            self.start_sample();
        }
    }

    fn start_sample(&mut self) {
        self.generation.0 += 1;
        self.sample = Sample::default();
    }

    fn end_look(&mut self, now: Instant) {
        for verb in 0..3 {
            if let Some(mean) = self.sample.mean(verb) {
                self.quiet[verb] = Some(mean.max(QUICKEST));
            }
        }
        self.slowest = self.quiet.into_iter().flatten().max().unwrap_or_default();
        self.looks = false;
        self.looked_at = now;
        self.before = None;
        self.in_vain = 0;
        self.start_sample();
    }

    /// Draws the conclusion from a sample; whether it was possible.
    fn adapt(&mut self) -> bool {
        let (mut took, mut quiet, mut answers) = (0.0, 0.0, 0);
        for verb in 0..3 {
            // A verb that was never seen alone tells nothing.
            if let Some(alone) = self.quiet[verb] {
                took += self.sample.took[verb].as_secs_f64();
                quiet += alone.as_secs_f64() * f64::from(self.sample.count[verb]);
                answers += self.sample.count[verb];
            }
        }
        if answers == 0 {
            return false;
        }
        let mut stretch = took / quiet;
        if self.fewer_did_not_help(stretch) {
            for quiet in self.quiet.iter_mut().flatten() {
                *quiet = quiet.mul_f64(stretch);
            }
            quiet = took;
            stretch = 1.0;
        }
        let waited = (took - quiet).max(0.0) / f64::from(answers);
        self.waited = Duration::from_secs_f64(waited);
        let may_wait = LONGEST_WAIT.as_secs_f64() * f64::from(answers);
        let factor = (STRETCH.max(1.0 + may_wait / quiet) / stretch).clamp(0.5, 2.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most twice the most writes that may be under way"
        )]
        let size = (self.now_under_way() * factor).round() as usize;
        self.size = size.max(FEW).min(self.max);
        true
    }

    /// Whether far fewer writes than before were answered no sooner. `stretch` is how many times as
    /// long as a quiet answer one took in the sample that has just ended.
    fn fewer_did_not_help(&mut self, stretch: f64) -> bool {
        let size = self.now_under_way();
        let now = Before { size, stretch };
        let before = *self.before.get_or_insert(now);
        if size > before.size * FAR_FEWER && size < before.size {
            return false;
        }
        self.before = Some(now);
        let in_vain = size < before.size && stretch > 1.0 && stretch >= before.stretch * NO_SOONER;
        self.in_vain = if in_vain { self.in_vain + 1 } else { 0 };
        self.in_vain >= SURE
    }

    #[expect(clippy::cast_precision_loss, reason = "far less than 2^52")]
    fn now_under_way(&self) -> f64 {
        self.size as f64
    }

    /// What was only concluded is to be seen soon.
    fn look_period(&self) -> Duration {
        ANEW.max(self.slowest * ANEW_QUIETS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::instant;

    /// A server that works on so many writes at once, for so long each; the rest wait in line.
    struct Server {
        workers: usize,
        takes: fn(Verb) -> Duration,
        free_at: Vec<Duration>,
    }

    impl Server {
        fn new(workers: usize, takes: fn(Verb) -> Duration) -> Self {
            Self {
                workers,
                takes,
                free_at: vec![Duration::ZERO; workers],
            }
        }

        fn answer_at(&mut self, sent: Duration, verb: Verb) -> Duration {
            let worker = (0..self.workers).min_by_key(|n| self.free_at[*n]);
            let free = &mut self.free_at[worker.expect("there is a worker")];
            *free = sent.max(*free) + (self.takes)(verb);
            *free
        }
    }

    /// As many writes as the pace allows, for so many seconds; how many were answered, and the
    /// pace's last size.
    fn run(pace: &mut Pace, server: &mut Server, start: Instant, seconds: u64) -> (u32, usize) {
        let end = Duration::from_secs(seconds);
        let mut under_way: Vec<(Duration, Duration, Verb, Generation)> = Vec::new();
        let (mut now, mut answered) = (Duration::ZERO, 0);
        while now < end {
            while under_way.len() < pace.allows() {
                let verb = [Verb::Create, Verb::Patch][answered as usize % 2];
                let at = server.answer_at(now, verb);
                under_way.push((at, now, verb, pace.generation()));
            }
            let first = (0..under_way.len()).min_by_key(|n| under_way[*n].0);
            let first = first.expect("some are under way");
            let (at, sent, verb, generation) = under_way.swap_remove(first);
            now = at;
            answered += 1;
            pace.answered(verb, generation, now - sent, start + now);
        }
        (answered, pace.size)
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_server_that_is_only_far_away_gets_all() {
        let start = instant();
        for (takes, least) in [
            ((|_| ms(5)) as fn(Verb) -> Duration, 0.97),
            (|_| ms(200), 0.90),
        ] {
            let mut pace = Pace::new(64, start);
            let (answered, size) = run(&mut pace, &mut Server::new(64, takes), start, 60);
            assert_eq!((size, pace.rest()), (64, Duration::ZERO));
            let most = 64.0 * 60.0 / takes(Verb::Patch).as_secs_f64();
            assert!(f64::from(answered) > least * most, "{answered} of {most}");
        }
    }

    #[test]
    fn a_server_with_few_hands_is_kept_busy_with_few_writes() {
        let start = instant();
        let mut pace = Pace::new(256, start);
        let (answered, size) = run(&mut pace, &mut Server::new(3, |_| ms(20)), start, 60);
        assert!((75..=95).contains(&size), "{size}");
        assert!(answered > 3 * 60 * 50 * 98 / 100, "{answered}");
        assert!((ms(80)..=LONGEST_REST).contains(&pace.rest()), "{pace:?}");
    }

    #[test]
    fn a_server_that_takes_long_has_a_few_in_line_and_no_more() {
        let start = instant();
        let mut pace = Pace::new(64, start);
        let (answered, size) = run(&mut pace, &mut Server::new(4, |_| ms(200)), start, 120);
        assert!((14..=18).contains(&size), "{size}");
        assert!(answered > 4 * 120 * 5 * 95 / 100, "{answered}");
        assert_eq!(pace.rest(), LONGEST_REST);
    }

    #[test]
    fn verbs_are_measured_each_by_itself() {
        let start = instant();
        let mut pace = Pace::new(64, start);
        let takes = |verb| match verb {
            Verb::Create => ms(80),
            Verb::Patch | Verb::Delete => ms(10),
        };
        let (_, size) = run(&mut pace, &mut Server::new(64, takes), start, 30);
        assert_eq!((size, pace.rest()), (64, Duration::ZERO));
    }

    #[test]
    fn it_shrinks_when_answers_take_longer_and_grows_when_they_do_not() {
        let start = instant();
        let mut pace = Pace::new(64, start);
        run(&mut pace, &mut Server::new(64, |_| ms(20)), start, 9);
        assert_eq!(pace.size, 64);
        let later = start + Duration::from_secs(9);
        let (_, size) = run(&mut pace, &mut Server::new(1, |_| ms(20)), later, 9);
        assert!((25..=32).contains(&size), "{size}");
        let last = later + Duration::from_secs(9);
        let (_, size) = run(&mut pace, &mut Server::new(64, |_| ms(20)), last, 9);
        assert_eq!(size, 64);
    }

    #[test]
    fn what_fewer_writes_do_not_help_against_makes_them_no_fewer() {
        let start = instant();
        let mut pace = Pace::new(64, start);
        run(&mut pace, &mut Server::new(64, |_| ms(5)), start, 3);
        let later = start + Duration::from_secs(3);
        let (answered, size) = run(&mut pace, &mut Server::new(64, |_| ms(700)), later, 60);
        assert_eq!((size, pace.rest()), (64, Duration::ZERO));
        let most = 64.0 * 60.0 / 0.700;
        assert!(f64::from(answered) > 0.85 * most, "{answered} of {most}");
    }

    #[test]
    fn noise_of_a_quick_server_is_none_of_its_business() {
        let start = instant();
        let mut pace = Pace::new(64, start);
        let quick = |_| Duration::from_micros(250);
        let (_, size) = run(&mut pace, &mut Server::new(2, quick), start, 3);
        assert_eq!((size, pace.rest()), (64, Duration::ZERO));
    }

    #[test]
    fn one_write_at_a_time_stays_one() {
        let start = instant();
        let mut pace = Pace::new(1, start);
        run(&mut pace, &mut Server::new(9, |_| ms(20)), start, 30);
        assert_eq!((pace.size, pace.allows()), (1, 1));
    }
}
