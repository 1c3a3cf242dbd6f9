//! Pictures as files. `NUMALOC_PICTURES=DIRECTORY` keeps them, to be looked at.

use super::*;
use crate::fixture::pictures;
use std::{env, fs, path::PathBuf};

fn drawn(name: &str, picture: &Picture) -> String {
    let origin = Origin {
        host: "db1".into(),
        time: "2026-11-26T08:16:33Z".into(),
        command: "migrate --pid 4711 --draw moved.svg".into(),
    };
    let text = svg(&crate::picture::drawn(picture), &origin);
    if let Some(directory) = env::var_os("NUMALOC_PICTURES") {
        fs::write(PathBuf::from(directory).join(name), &text).unwrap();
    }
    text
}

#[test]
fn a_small_picture() {
    insta::assert_snapshot!(drawn("mebibyte-coarse.svg", &pictures::mebibyte(16)));
}

#[test]
fn pictures_of_all_sizes_are_small_files() {
    let cases = [
        ("mebibyte.svg", pictures::mebibyte(CELLS)),
        ("tebibyte.svg", pictures::tebibyte(CELLS)),
        ("moved.svg", pictures::moved(CELLS)),
    ];
    for (name, picture) in cases {
        let text = drawn(name, &picture);
        assert!(text.len() < 300 << 10, "{name} has {} bytes", text.len());
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"), "{name}");
    }
}

#[test]
fn a_sampled_picture_says_so_and_what_is_left_out() {
    let text = drawn("tebibyte.svg", &pictures::tebibyte(CELLS));
    for words in ["Sampled: ", "--draw-exact", "~1.0 TiB", "37 smaller processes with 5.0 GiB"] {
        assert!(text.contains(words), "{words}");
    }
    let exact = drawn("mebibyte.svg", &pictures::mebibyte(CELLS));
    assert!(!exact.contains("Sampled") && !exact.contains('~'));
}

#[test]
fn before_and_after_are_in_one_picture() {
    let text = drawn("moved.svg", &pictures::moved(CELLS));
    for words in ["before", "after", "; afterwards ", "it ended before the second scan"] {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn a_picture_says_what_it_is_and_where_it_is_from() {
    let text = drawn("moved.svg", &pictures::moved(CELLS));
    for words in [
        " role=\"img\" aria-labelledby=\"numaloc-title numaloc-desc\" width=\"830\"",
        "<title id=\"numaloc-title\">NUMA nodes of the memory of 2 processes: db1, 2026-11-26T08:16:33Z, numalocctl ",
        "<desc id=\"numaloc-desc\">4711 redis-server, home node 0: 4.1 GiB resident, 51.1 % remote",
        "prefers-color-scheme:dark",
        ">555555756000-555655756000, 4.0 GiB of addresses<",
        ">db1, 2026-11-26T08:16:33Z<",
        concat!(
            ">numalocctl ",
            env!("CARGO_PKG_VERSION"),
            ": migrate --pid 4711 --draw moved.svg<"
        ),
        "% of the process<",
        ">Mappings with 95 % of a process's memory, and of its remote memory, are shown one by one.<",
        ">7f1000000000-7f1006000000, 96.0 MiB of addresses, mapped shared<",
        ">Memory that several processes map counts for each of them, and has a bar for the one with most of it.<",
    ] {
        assert!(text.contains(words), "{words}");
    }
    let sizes = text.split("font-size:").skip(1);
    let sizes = sizes.map(|rest| rest.split("px").next().unwrap().parse::<u32>().unwrap());
    assert!(sizes.min() == Some(12), "the width is that of a README, so this is what is seen");
}

#[test]
fn remote_memory_is_hatched_and_home_is_named() {
    let text = drawn("moved.svg", &pictures::moved(CELLS));
    assert!(text.contains(">node 0, home<") && text.contains(">node 1<"));
    assert!(
        text.contains("<pattern id=\"numaloc-1-remote\"") && !text.contains("numaloc-0-remote")
    );
    assert!(text.contains("<path fill=\"url(#numaloc-1-remote)\""));
    // Its processes have homes that differ, so each is named with its process.
    let text = drawn("tebibyte.svg", &pictures::tebibyte(CELLS));
    assert!(text.contains("812 database, home nodes 0-1<") && !text.contains(">node 0, home<"));
}

#[test]
fn the_picture_in_the_documentation_is_what_is_drawn() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures/moved.svg");
    let kept = fs::read_to_string(path).unwrap_or_default();
    let same = kept == drawn("moved.svg", &pictures::moved(CELLS));
    assert!(
        same,
        "run this test with NUMALOC_PICTURES set to docs/pictures, and look at moved.svg"
    );
}

#[test]
fn many_nodes_have_a_legend_of_several_lines() {
    let text = drawn("nodes.svg", &pictures::many_nodes(CELLS));
    for node in (0..30).map(|node| node * 3) {
        assert!(text.contains(&format!(">node {node}")), "{node}");
    }
    assert!(text.len() < 300 << 10, "{} bytes, with the stripes of six nodes", text.len());
}

#[test]
fn names_of_others_are_text_and_no_markup() {
    let text = drawn("hostile.svg", &pictures::hostile());
    let bad = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{fffe}' | '\u{ffff}');
    assert!(!text.contains(bad));
    assert!(text.contains("&lt;svg onload=") && !text.contains("<svg onload"), "{text}");
    assert!(text.contains("/tmp/&lt;&amp;&gt;"), "{text}");
}
