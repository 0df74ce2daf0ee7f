//! Triggers.

use super::super::*;
use crate::networks::tests::finish;

const GOOD: &str = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine.drive]]\n\
     name = 'disk'\nmodel = 'null'\nmedium = 'ram:1MiB'\n[[machine]]\nname = 'b'\n\
     [[fault]]\nkind = 'power-cut'\nmachine = 'b'\nat-io = 'disk:7'\nrestart = '1s'\n";

#[test]
fn a_trigger_is_what_the_fault_says() {
    let trigger = |text: &str| finish(text).unwrap().triggers().unwrap();
    let io = Trigger::Io { drive: "disk".into(), order: 7 };
    assert_eq!(trigger(GOOD), [FaultTrigger { number: 0, trigger: io, times: 1 }]);
    let failures = |text: &str| {
        let experiment = finish(text).unwrap();
        experiment.failures_of(&experiment.machine.all()[1]).unwrap()
    };
    assert!(failures(GOOD)[0].triggered && failures(GOOD)[0].at == 0);
    let packet = GOOD.replace("at-io = 'disk:7'", "at-packet = 'net0:9'");
    let packet = packet.replace("[[fault]]", "[[network]]\n[[fault]]");
    let on = Trigger::Packet { network: "net0".into(), number: 9 };
    assert_eq!(trigger(&packet), [FaultTrigger { number: 0, trigger: on, times: 1 }]);
    let line = GOOD.replace("at-io = 'disk:7'", "at-output = '^up$'\noutput-of = 'a'\ntimes = 2");
    let output = Trigger::Output { machine: Some("a".into()), pattern: "^up$".into() };
    assert_eq!(trigger(&line), [FaultTrigger { number: 0, trigger: output, times: 2 }]);
    let asked = GOOD.replace("at-io = 'disk:7'", "when = 'asked'\nname = 'cut'");
    let words = vec!["cut".into(), "power-cut b".into()];
    let [FaultTrigger { trigger, .. }] = &trigger(&asked)[..] else { panic!("one trigger") };
    assert_eq!(*trigger, Trigger::Asked { words });
}

#[test]
fn wrong_triggers_are_refused_by_name() {
    for (from, to, expected) in [
        ("'disk:7'", "'disk'", "must be a drive's name and a command's number"),
        ("'disk:7'", "'disk:x'", "must be a drive's name and a command's number"),
        ("'disk:7'", "'dusk:7'", "there is no drive `dusk`; did you mean `disk`?"),
        ("'disk:7'", "'disk:7'\nat = '1s'", "at and at-io are given"),
        ("'disk:7'", "'disk:7'\nname = 'cut'", "name is for a fault with `when"),
        ("'disk:7'", "'disk:7'\ntimes = 2", "times of a machine's fault counts the lines"),
        ("'disk:7'", "'disk:7'\noutput-of = 'a'", "output-of says whose output"),
        ("at-io = 'disk:7'", "at-packet = 'lan:7'", "at-packet needs a network"),
        ("at-io = 'disk:7'", "at-packet = 'lan'", "a network's name and a frame's number"),
        ("at-io = 'disk:7'", "at-output = '('", "at-output: `(` is no regular expression"),
        ("at-io = 'disk:7'", "at-output = 'x'\noutput-of = 'c'", "there is no machine `c`"),
        ("at-io = 'disk:7'", "at-output = 'x'\ntimes = 0", "must be at least 1"),
        ("at-io = 'disk:7'", "when = 'ask'", "it is one of `asked`"),
        ("at-io = 'disk:7'", "when = 'asked'\nname = 'a b'", "its name is `a b`"),
    ] {
        let message = finish(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
    let shared = "command = ['true']\n[[drive]]\nname = 'disk'\nmodel = 'null'\n\
         medium = 'ram:1MiB'\nscheduler = 'bfq'\n[[fault]]\nkind = 'stall'\nwhen = 'asked'\n";
    assert!(finish(shared).unwrap_err().contains("drive disk is shared"));
}
