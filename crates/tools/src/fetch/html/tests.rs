//! Conversion of valid and malformed pages.

use insta::assert_snapshot;

use super::*;

fn convert(html: &str) -> String {
    to_text(html, &Url::parse("https://example.com/a/b").unwrap())
}

#[test]
fn headings_links_lists_tables_and_entities_are_converted() {
    let html = r#"<!DOCTYPE html><html><head><title>A &amp; B</title><style>p { color: red }</style>
        <script>if (a < b) document.write("<p>no</p>");</script></head><body><!-- hidden -->
        <h1>Head<b>line</b></h1><p>Some  text
        with a <a href="../c?x=1&amp;y=2">link</a>, and <a href=javascript:alert(1)>none</a>.</p>
        <ul><li>one<li>two &#8212; &#x41;</ul><pre>  kept
          as it is</pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
        <img src=x alt="a cat"> 1 < 2<br>end</body></html>"#;
    assert_snapshot!(convert(html), @r"
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
fn malformed_pages_are_converted() {
    for (html, expected) in [
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
        assert_eq!(convert(html), expected, "{html}");
    }
}

#[test]
fn deep_nesting_takes_linear_time() {
    let deep = format!("{}t{}", "<a href=x>".repeat(100_000), "</a>".repeat(100_000));
    assert_eq!(convert(&deep), "[t](https://example.com/a/x)");
    assert_eq!(convert(&"<b '".repeat(100_000)), "");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_markup_never_panics(html in "(<|>|/|a|p|pre|script|!--|-->|\"|'|=| |href|ä|&|;|#|x|li|\n){0,40}") {
        let _ = convert(&html);
    }
}
