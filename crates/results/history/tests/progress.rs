//! Progress after faults.

use stasis_history::checkers::progress;
use stasis_history::History;

use crate::common::kinds;

fn timed(lines: &[(u64, usize, &str)]) -> History {
    let lines = lines.iter().map(|(time, process, kind)| {
        format!(r#"{{"type":"{kind}","process":{process},"f":"set","value":1,"time":{time}}}"#)
    });
    History::from_lines(lines).unwrap()
}

#[test]
fn something_is_done_after_faults() {
    let begin = [(0, 0, "invoke"), (10, 0, "info"), (90, 1, "invoke"), (110, 0, "invoke")];
    let with = |more: &[(u64, usize, &'static str)]| timed(&[&begin[..], more].concat());
    assert!(progress(&with(&[(150, 0, "ok")]), 100, 50, 200).is_valid());
    // One that began before counts as well.
    assert!(progress(&with(&[(150, 1, "ok")]), 100, 50, 200).is_valid());
    for late in [&[(151, 0, "ok")][..], &[(120, 0, "fail"), (130, 1, "info")], &[]] {
        let judgement = progress(&with(late), 100, 50, 200);
        assert_eq!(kinds(&judgement), ["stuck"], "{judgement:?}");
        assert_eq!(judgement.contradictions[0].operations, [2]);
    }
    let early = progress(&with(&[]), 100, 50, 149);
    assert_eq!(kinds(&early), [""; 0]);
    assert!(early.undecided[0].starts_with("the run ended before"), "{early:?}");
}

#[test]
fn clients_that_gave_up_are_no_contradiction() {
    let gone = timed(&[(0, 0, "invoke"), (10, 0, "info")]);
    let judgement = progress(&gone, 1_000_000_000, 5_000_000_000, u64::MAX);
    let text = "the clients gave up: nothing was invoked in 5 s from 1 s on";
    assert_eq!((kinds(&judgement), judgement.undecided), (Vec::new(), vec![text.to_owned()]));
    let open = progress(&timed(&[(0, 0, "invoke")]), 100, 50, 200);
    assert!(open.undecided[0].starts_with("1 operations from before are still"), "{open:?}");
    let untimed = History::from_lines([r#"{"type":"invoke","process":0,"f":"a"}"#]).unwrap();
    assert_eq!(progress(&untimed, 0, 1, 1).undecided, ["operations have no time"]);
}
