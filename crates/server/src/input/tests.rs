//! Bodies that the real server was sent, and what it said.

use super::{
    bodies,
    shape::{ObjectShape, Shape, Validator, is_named},
    validation_error::unreadable,
};
use crate::error::ApiError;
use serde_json::{Value, json};

fn told(mut body: Value, object: &'static ObjectShape) -> String {
    let mut check = Validator::new("body");
    check.value(&mut body, &Shape::Object(object));
    if check.found.is_empty() { body.to_string() } else { ApiError::from(check.found).detail.to_string() }
}

#[test]
fn everything_that_is_wrong_is_told_at_once_in_the_order_of_the_fields() {
    let body = json!({"appName": 1, "userId": 2, "sessionId": null, "newMessage": {"role": 3, "parts": {"a": 1}},
        "streaming": "maybe", "stateDelta": [], "customMetadata": 4});
    let wrong: Value = serde_json::from_str(&told(body, &bodies::RUN)).unwrap();
    let lines: Vec<String> = wrong
        .as_array()
        .unwrap()
        .iter()
        .map(|wrong| format!("{} {} {}", wrong["type"], wrong["loc"], wrong["msg"]).replace('"', ""))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    string_type [body,appName] Input should be a valid string
    string_type [body,userId] Input should be a valid string
    string_type [body,sessionId] Input should be a valid string
    list_type [body,newMessage,parts] Input should be a valid list
    string_type [body,newMessage,role] Input should be a valid string
    bool_parsing [body,streaming] Input should be a valid boolean, unable to interpret input
    dict_type [body,stateDelta] Input should be a valid dictionary
    dict_type [body,customMetadata] Input should be a valid dictionary
    ");
}

#[test]
fn a_misspelt_field_of_a_part_is_told_with_its_place() {
    let body = json!({"userId": "u", "sessionId": "s", "newMessage": {"parts": [{"txet": "hi"}]}});
    insta::assert_snapshot!(told(body, &bodies::RUN), @r#"[{"type":"extra_forbidden","loc":["body","newMessage","parts",0,"txet"],"msg":"Extra inputs are not permitted","input":"hi"}]"#);
}

#[test]
fn bytes_that_are_not_base64_are_told_with_the_first_odd_one() {
    let body = json!({"filename": "f", "artifact": {"inlineData": {"data": "@@@"}}});
    insta::assert_snapshot!(told(body, &bodies::SAVE_ARTIFACT), @r#"[{"type":"bytes_invalid_encoding","loc":["body","artifact","inlineData","data"],"msg":"Data should be valid base64: Invalid symbol 64, offset 0.","input":"@@@","ctx":{"encoding":"base64","encoding_error":"Invalid symbol 64, offset 0."}}]"#);
}

#[test]
fn null_is_absence_and_words_for_yes_are_true() {
    let body = json!({"user_id": "u", "session_id": "s", "appName": null, "streaming": "on",
        "new_message": {"parts": [{"text": "hi", "thought": null}], "role": null}});
    assert_eq!(
        told(body, &bodies::RUN),
        r#"{"user_id":"u","session_id":"s","streaming":true,"new_message":{"parts":[{"text":"hi"}]}}"#
    );
}

#[test]
fn a_field_has_two_spellings_and_no_third() {
    for (key, fits) in
        [("userId", true), ("user_id", true), ("userid", false), ("user_Id", false), ("user_i", false)]
    {
        assert_eq!(is_named(key, "userId"), fits, "{key}");
    }
}

#[test]
fn json_that_breaks_off_is_told_at_its_end() {
    let bytes = br#"{"state":"#;
    let error = serde_json::from_slice::<Value>(bytes).unwrap_err();
    let failure = ApiError::from(unreadable(bytes, &error));
    insta::assert_snapshot!(failure.detail, @r#"[{"type":"json_invalid","loc":["body",9],"msg":"JSON decode error","input":{},"ctx":{"error":"Expecting value"}}]"#);
}
