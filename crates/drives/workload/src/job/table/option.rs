//! An option of fio's, and its treatment here.

/// An option of fio's.
#[derive(Debug, Clone, Copy)]
pub struct FioOption {
    /// Its name, then other names for the same.
    pub names: &'static [&'static str],
    /// Treatment of the option.
    pub verdict: Verdict,
}

/// Treatment of an option.
#[derive(Debug, Clone, Copy)]
pub enum Verdict {
    /// The option has the same effect as in fio; with a description of it in a few words.
    Simulated(Key, &'static str),
    /// The option changes no I/O; with the reason.
    NoEffect(&'static str),
    /// The option is refused, but for values without an effect; with the alternative.
    Refused(&'static [&'static str], &'static str),
}

/// The options that are simulated, each named after its option.
#[allow(missing_docs, reason = "the table says what each means")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Name,
    FileName,
    NrFiles,
    OpenFiles,
    FileServiceType,
    Engine,
    Direct,
    Buffered,
    NumJobs,
    IoDepth,
    IoDepthBatch,
    CompleteMin,
    CompleteMax,
    IoDepthLow,
    SubmitMode,
    Rw,
    RwSequencer,
    RwMixRead,
    RwMixWrite,
    Bs,
    Ba,
    BsRange,
    BsSplit,
    BsIsSeqRand,
    Offset,
    OffsetAlign,
    OffsetIncrement,
    Size,
    FileSize,
    IoSize,
    Loops,
    NumberIos,
    Runtime,
    TimeBased,
    RampTime,
    StartDelay,
    ThinkTime,
    ThinkTimeBlocks,
    ThinkTimeBlocksType,
    ThinkTimeIoTime,
    Rate,
    RateIops,
    RateProcess,
    Fsync,
    Fdatasync,
    EndFsync,
    FsyncOnClose,
    RandomDistribution,
    RandomGenerator,
    PercentageRandom,
    NoRandomMap,
    RandSeed,
    Stonewall,
    NewGroup,
    WaitFor,
    ExitAll,
    ExitWhat,
    ExitOnIoDone,
    CreateOnly,
    KbBase,
    Prio,
    PrioClass,
    Verify,
    DoVerify,
    VerifyOnly,
    VerifyBacklog,
    VerifyBacklogBatch,
    ReadFua,
    WriteFua,
    ZoneMode,
    ZoneSize,
    ZoneRange,
    ZoneSkip,
    Include,
}

/// An option that is simulated.
pub(super) const fn simulated(
    names: &'static [&'static str],
    key: Key,
    meaning: &'static str,
) -> FioOption {
    FioOption { names, verdict: Verdict::Simulated(key, meaning) }
}

/// Options that change no I/O.
pub(super) const fn neutral(names: &'static [&'static str], reason: &'static str) -> FioOption {
    FioOption { names, verdict: Verdict::NoEffect(reason) }
}

/// Options that are refused.
pub(super) const fn refused(
    names: &'static [&'static str],
    neutral: &'static [&'static str],
    instead: &'static str,
) -> FioOption {
    FioOption { names, verdict: Verdict::Refused(neutral, instead) }
}
