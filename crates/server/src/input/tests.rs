//! Bodies against the responses of the real ADK server, and validation tables against their structs.

use super::{
    bodies::{
        self, CreateSessionBody, PatchMemoryBody, PatchSessionBody, RunBody, SaveArtifactBody, SessionRunBody,
    },
    body::{BodyType, RequestBody},
    shape::{FieldShape, ObjectShape, Requirement, Shape, find_key, is_spelling_of},
    validation_error::json_syntax_error,
    validator::Validator,
};
use crate::{body_budget::BodyBudget, error::ApiError};
use adk::{
    content::{Blob, Content, Data, FileData, FunctionCall, FunctionResponse, Part},
    event::{Event, EventActions, NodeInfo, UsageMetadata},
};
use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, Visitor},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The normalised body if it is valid, else its errors.
fn validate(mut body: Value, object: &'static ObjectShape) -> String {
    let mut validator = Validator::new("body");
    validator.check(&mut body, &Shape::Object(object));
    if validator.errors.is_empty() {
        body.to_string()
    } else {
        ApiError::from(validator.errors).detail.to_string()
    }
}

#[test]
fn response_to_many_or_large_errors_is_small() {
    let items: Vec<Value> = vec![1.into(); 100_000];
    let many = validate(json!({"events": items}), &bodies::CREATE_SESSION);
    let errors: Vec<Value> = serde_json::from_str(&many).unwrap();
    assert_eq!(errors.len(), 100);
    let events: Vec<Value> = vec![json!({"author": ["x".repeat(2_000)]}); 100];
    let large = validate(json!({"events": events}), &bodies::CREATE_SESSION);
    assert!(large.len() < 128 * 1024 && large.contains("…"), "{} bytes", large.len());
    let unquotable = validate(json!({"events": "x".repeat(1 << 20)}), &bodies::CREATE_SESSION);
    assert_eq!(serde_json::from_str::<Value>(&unquotable).unwrap()[0]["input"], "…");
}

#[test]
fn all_errors_are_listed_in_the_order_of_the_fields() {
    let body = json!({"appName": 1, "userId": 2, "sessionId": null, "newMessage": {"role": 3, "parts": {"a": 1}},
        "streaming": "maybe", "stateDelta": [], "customMetadata": 4});
    let errors: Value = serde_json::from_str(&validate(body, &bodies::RUN)).unwrap();
    let lines: Vec<String> = errors
        .as_array()
        .unwrap()
        .iter()
        .map(|error| format!("{} {} {}", error["type"], error["loc"], error["msg"]).replace('"', ""))
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
fn an_unknown_field_of_a_part_is_an_error_with_its_location() {
    let body = json!({"userId": "u", "sessionId": "s", "newMessage": {"parts": [{"txet": "hi"}]}});
    insta::assert_snapshot!(validate(body, &bodies::RUN), @r#"[{"type":"extra_forbidden","loc":["body","newMessage","parts",0,"txet"],"msg":"Extra inputs are not permitted","input":"hi"}]"#);
}

#[test]
fn invalid_base64_is_an_error_with_the_first_invalid_symbol() {
    let body = json!({"filename": "f", "artifact": {"inlineData": {"data": "@@@"}}});
    insta::assert_snapshot!(validate(body, &bodies::SAVE_ARTIFACT), @r#"[{"type":"bytes_invalid_encoding","loc":["body","artifact","inlineData","data"],"msg":"Data should be valid base64: Invalid symbol 64, offset 0.","input":"@@@","ctx":{"encoding":"base64","encoding_error":"Invalid symbol 64, offset 0."}}]"#);
}

#[test]
fn null_is_removed_and_words_for_true_become_booleans() {
    let body = json!({"user_id": "u", "session_id": "s", "appName": null, "streaming": "on",
        "new_message": {"parts": [{"text": "hi", "thought": null}], "role": null}});
    assert_eq!(
        validate(body, &bodies::RUN),
        r#"{"user_id":"u","session_id":"s","streaming":true,"new_message":{"parts":[{"text":"hi"}]}}"#
    );
}

#[test]
fn texts_and_floats_with_an_integral_value_become_counts() {
    let usage = json!({"promptTokenCount": "7", "totalTokenCount": 8.0, "thoughtsTokenCount": -0.0});
    let expected =
        r#"{"events":[{"usageMetadata":{"promptTokenCount":7,"totalTokenCount":8,"thoughtsTokenCount":0}}]}"#;
    assert_eq!(validate(json!({"events": [{"usageMetadata": usage}]}), &bodies::CREATE_SESSION), expected);
}

#[test]
fn a_field_has_a_camel_case_and_a_snake_case_spelling() {
    for (key, matches) in
        [("userId", true), ("user_id", true), ("userid", false), ("user_Id", false), ("user_i", false)]
    {
        assert_eq!(is_spelling_of(key, "userId"), matches, "{key}");
    }
}

#[test]
fn null_in_one_spelling_does_not_hide_the_value_in_the_other() {
    let found = |map: Value| find_key(map.as_object().unwrap(), "userId");
    for (map, expected) in [
        (json!({"userId": null, "user_id": 1}), "user_id"),
        (json!({"user_id": 1, "userId": null}), "user_id"),
        (json!({"user_id": null, "userId": 1}), "userId"),
        (json!({"user_id": 2, "userId": 1}), "userId"),
        (json!({"user_id": null}), "user_id"),
    ] {
        assert_eq!(found(map).as_deref(), Some(expected));
    }
    assert_eq!(found(json!({"user": 1})), None);
}

#[test]
fn the_error_of_truncated_json_is_located_at_its_end() {
    let bytes = br#"{"state":"#;
    let error = serde_json::from_slice::<Value>(bytes).unwrap_err();
    let error = ApiError::from(json_syntax_error(bytes, &error));
    insta::assert_snapshot!(error.detail, @r#"[{"type":"json_invalid","loc":["body",9],"msg":"JSON decode error","input":{},"ctx":{"error":"Expecting value"}}]"#);
}

async fn parse<T: BodyType>(body: Value) -> Result<T, ApiError> {
    let request = Request::new(Body::from(body.to_string()));
    let budget = BodyBudget::new(1 << 20, 1 << 20);
    Ok(RequestBody::from_request(request, &budget).await?.required()?.0)
}

#[tokio::test]
async fn a_body_deserializes_from_both_spellings_and_camel_case_wins() {
    let body = json!({"app_name": "a", "userId": "u", "user_id": "ignored", "session_id": "s", "streaming": "yes",
        "state_delta": {"snake_key": 1}, "new_message": {"parts": [{"text": "hi"}]}});
    let body: RunBody = parse(body).await.unwrap();
    assert_eq!(
        (body.app_name.as_deref(), body.user_id.as_str(), body.session_id.as_str()),
        (Some("a"), "u", "s")
    );
    assert!(body.streaming);
    assert_eq!(body.state_delta.unwrap(), *json!({"snake_key": 1}).as_object().unwrap());
    assert_eq!(body.new_message.unwrap().parts.len(), 1);
}

/// A body whose table accepts more than its struct.
#[derive(Debug, Deserialize)]
struct LooseBody {
    #[expect(dead_code, reason = "only its type matters")]
    count: u8,
}

impl BodyType for LooseBody {
    const SHAPE: &'static ObjectShape = &ObjectShape {
        name: "LooseRequest",
        fields: &[FieldShape::required("count", Shape::Any)],
        closed: false,
    };
}

#[tokio::test]
async fn a_value_that_only_the_struct_rejects_is_an_error_of_its_field() {
    let error = parse::<LooseBody>(json!({"count": "many"})).await.unwrap_err();
    assert_eq!(error.status.as_u16(), 422);
    insta::assert_snapshot!(error.detail, @r#"[{"type":"value_error","loc":["body","count"],"msg":"Value error, a value in this field has the wrong type","input":null}]"#);
}

#[test]
fn errors_in_the_nested_fields_of_an_event_have_their_location() {
    let event = json!({"usageMetadata": {"promptTokenCount": "x", "thoughtsTokenCount": [], "totalTokenCount": -1, "candidates_token_count": 1.5},
        "actions": {"stateDelta": 7, "escalate": "perhaps", "transfer_to_agent": {}}, "nodeInfo": {"path": null}});
    let errors = validate(json!({"events": [event]}), &bodies::CREATE_SESSION);
    insta::assert_snapshot!(errors.replace("},", "},\n"), @r#"
    [{"type":"int_from_float","loc":["body","events",0,"usageMetadata","candidates_token_count"],"msg":"Input should be a valid integer, got a number with a fractional part","input":1.5},
    {"type":"int_parsing","loc":["body","events",0,"usageMetadata","promptTokenCount"],"msg":"Input should be a valid integer, unable to parse string as an integer","input":"x"},
    {"type":"int_type","loc":["body","events",0,"usageMetadata","thoughtsTokenCount"],"msg":"Input should be a valid integer","input":[]},
    {"type":"greater_than_equal","loc":["body","events",0,"usageMetadata","totalTokenCount"],"msg":"Input should be greater than or equal to 0","input":-1},
    {"type":"dict_type","loc":["body","events",0,"actions","stateDelta"],"msg":"Input should be a valid dictionary","input":7},
    {"type":"string_type","loc":["body","events",0,"actions","transfer_to_agent"],"msg":"Input should be a valid string","input":{}},
    {"type":"bool_parsing","loc":["body","events",0,"actions","escalate"],"msg":"Input should be a valid boolean, unable to interpret input","input":"perhaps"},
    {"type":"string_type","loc":["body","events",0,"nodeInfo","path"],"msg":"Input should be a valid string","input":null}]
    "#);
}

#[test]
fn only_one_spelling_of_a_field_remains() {
    let event = json!({"branch": "b", "modelVersion": null, "model_version": "m", "invocationId": "a", "invocation_id": []});
    let expected = r#"{"events":[{"branch":"b","model_version":"m","invocationId":"a"}]}"#;
    assert_eq!(validate(json!({"events": [event]}), &bodies::CREATE_SESSION), expected);
}

/// An event with all fields. The literals name each field, so that a new one is tested, too.
fn full_event() -> Event {
    let dict = json!({"k": 1}).as_object().cloned().unwrap_or_default();
    let text = || Some("x".to_owned());
    let response = FunctionResponse::new("1", "f", json!({"a": 1}));
    let call =
        FunctionCall { id: text(), args: Some(dict.clone()), name: "f".to_owned(), extra: Map::default() };
    let blob =
        Blob { data: "aGk=".to_owned(), display_name: text(), mime_type: text(), extra: Map::default() };
    let file = FileData {
        display_name: text(),
        file_uri: "x:y".to_owned(),
        mime_type: text(),
        extra: Map::default(),
    };
    let thought = Part { thought_signature: Some("c2ln".to_owned()), ..Part::thought("hm") };
    let parts =
        vec![thought, call.into(), response.into(), blob.into(), Data::FileData(Box::new(file)).into()];
    Event {
        model_version: text(),
        content: Some(Content::new("user", parts)),
        partial: Some(false),
        turn_complete: Some(true),
        finish_reason: text(),
        error_code: text(),
        error_message: text(),
        interrupted: Some(false),
        custom_metadata: Some(dict.clone()),
        usage_metadata: Some(UsageMetadata {
            cached_content_token_count: Some(1),
            candidates_token_count: Some(1),
            prompt_token_count: Some(1),
            thoughts_token_count: Some(1),
            total_token_count: Some(1),
            extra: Map::default(),
        }),
        invocation_id: "e-1".to_owned(),
        author: "user".to_owned(),
        actions: EventActions {
            skip_summarization: Some(false),
            state_delta: dict.clone(),
            artifact_delta: dict.clone(),
            transfer_to_agent: text(),
            escalate: Some(false),
            requested_auth_configs: dict.clone(),
            requested_tool_confirmations: dict,
            extra: Map::default(),
        },
        node_info: NodeInfo { path: "a".to_owned(), extra: Map::default() },
        long_running_tool_ids: Some(vec!["1".to_owned()]),
        branch: text(),
        id: "1".to_owned(),
        timestamp: 1.5,
        extra: Map::default(),
    }
}

/// The JSON pointers of all values in a value.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), all));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| pointers(value, &format!("{at}/{index}"), all));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn the_table_of_an_event_rejects_all_that_its_struct_rejects() {
    let body = json!({"events": [full_event()]});
    assert!(parse::<CreateSessionBody>(body.clone()).await.is_ok());
    let others = [
        json!(null),
        json!(true),
        json!(7),
        json!(-1),
        json!(1e300),
        json!("x"),
        json!([7]),
        json!({"a": 7}),
    ];
    let (mut all, mut missed) = (Vec::new(), Vec::new());
    pointers(&body, "", &mut all);
    for pointer in all.iter().filter(|pointer| !pointer.is_empty()) {
        for other in &others {
            let mut changed = body.clone();
            if let Some(value) = changed.pointer_mut(pointer) {
                value.clone_from(other);
            }
            let result = parse::<CreateSessionBody>(changed).await;
            missed.extend(
                result
                    .err()
                    .filter(|error| error.detail[0]["type"] == "value_error")
                    .map(|_| (pointer, other)),
            );
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// A valid value of a shape. Objects and lists are empty: the test is about the fields of a body.
fn example(shape: &Shape) -> Value {
    match shape {
        Shape::Any => json!(1),
        Shape::Text | Shape::Bytes => json!("text"),
        Shape::Flag => json!(true),
        Shape::Number => json!(1.5),
        Shape::Count => json!(7),
        Shape::Dict => json!({"key": 1}),
        Shape::List(_) => json!([]),
        Shape::Object(_) => json!({}),
    }
}

/// Fails with the names of the fields that a struct deserializes.
struct FieldNames;

impl<'de> Deserializer<'de> for FieldNames {
    type Error = serde_json::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom(fields.join(",")))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("not a struct"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn field_names<'de, T: Deserialize<'de>>() -> BTreeSet<String> {
    let Err(names) = T::deserialize(FieldNames) else { unreachable!() };
    names.to_string().split(',').map(str::to_owned).collect()
}

/// Checks that the struct of a body has the fields of its table, with types that accept the values that the table accepts.
/// `ignored` fields are validated as ADK does and have no effect in this server.
async fn check_struct<T: BodyType>(ignored: &[&str]) {
    let table = T::SHAPE.name;
    let names = |fields: &[&str]| fields.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let in_table: Vec<&str> = T::SHAPE.fields.iter().map(|field| field.name).collect();
    let in_struct = field_names::<T>();
    assert!(in_struct.is_disjoint(&names(ignored)), "{table}");
    assert_eq!(&in_struct | &names(ignored), names(&in_table), "{table}");

    let body = |fields: &mut dyn Iterator<Item = &FieldShape>| {
        Value::Object(fields.map(|field| (field.name.to_owned(), example(&field.shape))).collect())
    };
    let all = parse::<T>(body(&mut T::SHAPE.fields.iter())).await;
    assert!(all.is_ok(), "{table} with all fields: {:?}", all.err());
    let is_required = |field: &&FieldShape| field.requirement == Requirement::Required;
    let required = parse::<T>(body(&mut T::SHAPE.fields.iter().filter(is_required))).await;
    assert!(required.is_ok(), "{table} with required fields only: {:?}", required.err());
}

#[tokio::test]
async fn the_struct_of_each_body_matches_its_table() {
    check_struct::<RunBody>(&["serviceTier"]).await;
    check_struct::<SessionRunBody>(&[]).await;
    check_struct::<CreateSessionBody>(&[]).await;
    check_struct::<PatchSessionBody>(&[]).await;
    check_struct::<PatchMemoryBody>(&[]).await;
    check_struct::<SaveArtifactBody>(&[]).await;
}
