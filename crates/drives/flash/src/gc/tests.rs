use super::*;

struct Blocks(Vec<Option<Candidate>>);

impl Candidates for Blocks {
    fn blocks(&self) -> u32 {
        self.0.len() as u32
    }
    fn get(&self, block: u32) -> Option<Candidate> {
        self.0[block as usize]
    }
    fn least_valid(&self) -> Option<u32> {
        let known = self.0.iter().enumerate().filter_map(|(b, c)| c.map(|c| (c.valid, b as u32)));
        known.min().map(|(_, block)| block)
    }
}

fn block(valid: u32, age: u32) -> Option<Candidate> {
    Some(Candidate { valid, slots: 100, age, erases: 0 })
}

fn policy(name: &str, choices: u32) -> Box<dyn VictimPolicy> {
    build(&GcSpec { policy: name.into(), choices, ..GcSpec::default() }, 1)
}

#[test]
fn each_policy_chooses_as_its_rule_says() {
    let blocks = Blocks(vec![None, block(60, 1_000), block(30, 5), block(50, 10), None]);
    assert_eq!(policy("greedy", 1).choose(&blocks), Some(2));
    // 0.4 / 1.2 * 1001 beats 0.7 / 0.6 * 6.
    assert_eq!(policy("cost-benefit", 1).choose(&blocks), Some(1));
    // Forty draws among five blocks miss none but by a chance of 10^-4.
    assert_eq!(policy("d-choices", 30).choose(&blocks), Some(2));
}

#[test]
fn one_choice_is_random_and_many_are_greedy() {
    let blocks = Blocks((0..100).map(|valid| block(valid, 0)).collect());
    let mean = |choices| {
        let mut policy = policy("d-choices", choices);
        let sum: u32 = (0..4_000).map(|_| policy.choose(&blocks).unwrap()).sum();
        f64::from(sum) / 4_000.0
    };
    // The mean of the least of d uniform draws from 0 to 99: about 100 / (d + 1).
    for (choices, expected) in [(1, 49.5), (4, 19.5), (9, 9.5)] {
        assert!((mean(choices) - expected).abs() < 1.5, "{choices}: {}", mean(choices));
    }
}

#[test]
fn nothing_to_collect_is_nothing_chosen_and_full_blocks_do_not_win() {
    let full = Blocks(vec![block(100, 1_000), block(99, 0), block(100, 7)]);
    for known in POLICIES {
        assert_eq!(policy(known.name, 1).choose(&Blocks(vec![None; 3])), None, "{}", known.name);
        assert_eq!(policy(known.name, 1).choose(&full), Some(1), "{}", known.name);
    }
}
