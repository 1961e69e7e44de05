use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::*;

fn deflated(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// A node of the page tree, and its pages.
fn tree(pages: usize) -> String {
    let kids: Vec<String> = (0..pages).map(|page| format!("{} 0 R", page + 3)).collect();
    let node = format!("<< /Type /Pages /Count {pages} /Kids [{}] >>\n", kids.join(" "));
    node + &"<</Type/Page/Parent 2 0 R>>\n".repeat(pages)
}

/// A file with objects in a stream of these filters.
fn packed(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let head = format!("%PDF-1.7\n9 0 obj\n<< {dictionary} /Length {} >>\nstream\r\n", data.len());
    [head.as_bytes(), data, b"\nendstream\nendobj\n"].concat()
}

const OBJECTS: &str = "/Type /ObjStm /N 9 /First 9 /Filter /FlateDecode";

#[test]
fn pages_are_counted_as_they_stand_in_the_file() {
    assert_eq!(of(b"%PDF-1.7\n"), Pages::Missing);
    assert_eq!(of(format!("%PDF-1.7\n{}", tree(3)).as_bytes()), Pages::AtMost(3));
    let escaped = "<< /T#79pe /P#61ge >> << /Type/Page>> << /Type /PageLabel >> << /Type /Pages >>";
    assert_eq!(of(escaped.as_bytes()), Pages::AtMost(2));
    // A page without a type is still one.
    assert_eq!(of(b"<< /Kids [ 3 0 R\n4 0 R ] >>"), Pages::AtMost(2));
    let encoded = BASE64.encode(tree(5));
    assert_eq!(count(&encoded), Pages::AtMost(5));
    let (head, tail) = encoded.split_at(9);
    assert_eq!(
        count(&format!(" {head}\n{tail}==")),
        Pages::AtMost(5),
        "as lenient servers read it"
    );
    assert_eq!(decoded("aGVsbG8gd29ybGQ", 5), b"hello ");
}

#[test]
fn pages_in_object_streams_are_counted() {
    let many = packed(OBJECTS, &deflated(&tree(5_000)));
    assert!(many.len() < 32 * 1024, "the file is small: {}", many.len());
    assert_eq!(of(&many), Pages::AtMost(5_000));
    let unnamed = OBJECTS.replace("/Type /ObjStm", "/Type 7 0 R");
    assert_eq!(of(&packed(&unnamed, &deflated(&tree(7)))), Pages::AtMost(7));
    let both = [packed(OBJECTS, &deflated(&tree(2))), b"<</Type/Page>><</Type/Page>>".to_vec()];
    assert_eq!(of(&both.concat()), Pages::AtMost(4));
    let picture = packed("/Filter /DCTDecode /Width 9", b"\xff\xd8");
    assert_eq!(of(&picture), Pages::Missing);
}

#[test]
fn what_cannot_be_followed_is_unsure() {
    for (what, file) in [
        ("another filter", packed(&OBJECTS.replace("Flate", "LZW"), b"xyz")),
        ("two filters", packed(&format!("{OBJECTS} /ASCII85Decode"), b"xyz")),
        ("a filter elsewhere", packed("/Type /ObjStm /Filter 7 0 R", b"xyz")),
        ("no stream", packed(OBJECTS, b"xyz")),
        ("a part of a stream", packed(OBJECTS, &deflated(&tree(99))[..40])),
        ("more than is unpacked", packed(OBJECTS, &deflated(&" ".repeat(MOST_UNPACKED + 1)))),
        ("a page that is there twice", b"/Kids [3 0 R 3 0 R]".to_vec()),
        ("a node that is there twice", b"/Kids [3 0 R 4 0 R] /Kids [4 0 R]".to_vec()),
        ("a list elsewhere", b"/Kids 7 0 R ]".to_vec()),
        ("a list without an end", b"/Kids [7 0 R".to_vec()),
        ("something else in the list", b"/Kids [<< /Type /Other >>]".to_vec()),
    ] {
        assert_eq!(of(&file), Pages::Unsure(0), "{what}");
    }
    assert_eq!(count("%%%%"), Pages::Missing);
}
