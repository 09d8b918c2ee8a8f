//! Pages, good and bad.

use insta::assert_snapshot;

use super::*;

fn read(html: &str) -> String {
    text(html, &Url::parse("https://example.com/a/b").unwrap())
}

#[test]
fn a_page_reads_like_a_page() {
    let html = r#"<!DOCTYPE html><html><head><title>A &amp; B</title><style>p { color: red }</style>
        <script>if (a < b) document.write("<p>no</p>");</script></head><body><!-- hidden -->
        <h1>Head<b>line</b></h1><p>Some  text
        with a <a href="../c?x=1&amp;y=2">link</a>, and <a href=javascript:alert(1)>none</a>.</p>
        <ul><li>one<li>two &#8212; &#x41;</ul><pre>  kept
          as it is</pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
        <img src=x alt="a cat"> 1 < 2<br>end</body></html>"#;
    assert_snapshot!(read(html), @r"
    A & B

    # Headline

    Some text with a [link](https://example.com/c?x=1&y=2), and none.

    - one
    - two — A

      kept
              as it is

    a | b |
    1 | 2 |

    [image: a cat] 1 < 2
    end
    ");
}

#[test]
fn broken_pages_break_nothing() {
    for (html, shown) in [
        ("", ""),
        ("<", "<"),
        ("<p", ""),
        ("a<b", "a"),
        ("<script>never ends", ""),
        ("<!-- never ends", ""),
        ("<a href=\"x>y", "y"),
        ("</a></pre></li>x", "x"),
        ("&unknown; &#xffffffff; &amp", "&unknown; &#xffffffff; &amp"),
        ("<a href='x'><div></div></a>y", "y"),
        ("<SCRIPT>no</ScRiPt >yes", "yes"),
        ("<a href=\"http://x/\"><p>text</p></a>", "[text](http://x/)"),
    ] {
        assert_eq!(read(html), shown, "{html}");
    }
}

#[test]
fn a_page_that_nests_without_end_takes_no_longer() {
    let deep = format!("{}t{}", "<a href=x>".repeat(100_000), "</a>".repeat(100_000));
    assert_eq!(read(&deep), "[t](https://example.com/a/x)");
    assert_eq!(read(&"<b '".repeat(100_000)), "");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_page_breaks_the_reader(html in "(<|>|/|a|p|pre|script|!--|-->|\"|'|=| |href|ä|&|;|#|x|li|\n){0,40}") {
        let _ = read(&html);
    }
}
