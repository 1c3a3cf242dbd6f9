//! The configurations of numalocd, of numaloc-nri and of numaloc-agent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use numalocd::config::Config;

fuzz_target!(|bytes: &[u8]| configuration(&String::from_utf8_lossy(bytes)));

fn configuration(text: &str) {
    if let Err(problems) = text.parse::<Config>() {
        assert!(!problems.is_empty(), "it is refused without a word");
        let last = 1 + text.matches('\n').count();
        for problem in problems {
            assert!((1..=last).contains(&problem.line), "line {} of {last}", problem.line);
            assert!(!problem.to_string().is_empty());
        }
    }
    numaloc_nri::fuzz::configuration(text);
    numaloc_agent::fuzz::configuration(text);
}
