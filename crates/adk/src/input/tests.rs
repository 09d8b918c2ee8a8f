//! Tests of answers to input requests.

use super::*;

fn request(schema: Value) -> InputRequest {
    InputRequest { message: "?".to_owned(), schema, payload: Map::new() }
}

/// The answer as JSON, or the error.
fn answer(schema: &Value, response: &Value) -> Value {
    match request(schema.clone()).parse_answer(response.as_object().unwrap()) {
        Ok(answer) => answer.to_response().into(),
        Err(error) => error.into(),
    }
}

fn accept(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

fn one(field: &Value) -> Value {
    json!({"type": "object", "properties": {"it": field}, "required": ["it"]})
}

#[test]
fn all_forms_of_an_answer_are_read() {
    let schema = one(&json!({"type": "string"}));
    let expected = accept(&json!({"it": "x"}));
    for response in [
        json!({"it": "x"}),
        json!({"result": {"it": "x"}}),
        json!({"response": {"it": "x"}}),
        json!({"result": "x"}),
        json!({"response": "{\"it\": \"x\"}"}),
        json!({"action": "accept", "content": {"it": "x"}}),
        json!({"result": {"action": "accept", "content": {"it": "x"}}}),
        json!({"response": "{\"action\": \"accept\", \"content\": {\"it\": \"x\"}}"}),
    ] {
        assert_eq!(answer(&schema, &response), expected, "{response}");
    }
    for action in ["decline", "cancel"] {
        let expected = json!({"action": action});
        let forms = [json!({"action": action}), json!({"result": action}), json!({"response": action})];
        for response in forms {
            assert_eq!(answer(&schema, &response), expected, "{response}");
        }
    }
}

#[test]
fn fields_with_the_name_of_a_wrapper_or_of_the_action_are_fields() {
    let wrapper = json!({"type": "object", "properties": {"result": {"type": "string"}}});
    assert_eq!(answer(&wrapper, &json!({"result": "x"})), accept(&json!({"result": "x"})));
    let action = json!({"type": "object", "properties": {"action": {"type": "string"}}});
    assert_eq!(answer(&action, &json!({"action": "cancel"})), accept(&json!({"action": "cancel"})));
}

#[test]
fn texts_are_converted_to_the_type_of_their_field() {
    let titled = json!([{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]);
    for (field, text, value) in [
        (json!({"type": "integer"}), "42", json!(42)),
        (json!({"type": "number"}), "1.5", json!(1.5)),
        (json!({"type": "number"}), "-3", json!(-3)),
        (json!({"type": "boolean"}), "Yes", json!(true)),
        (json!({"type": "boolean"}), "n", json!(false)),
        (json!({"type": "string", "enum": ["a", "b"]}), "B", json!("b")),
        (json!({"type": "string", "enum": ["a"], "enumNames": ["First one"]}), "first one", json!("a")),
        (json!({"type": "string", "oneOf": titled}), "green", json!("g")),
        (
            json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
            "A, b",
            json!(["a", "b"]),
        ),
        (json!({"type": "array", "items": {"anyOf": titled}}), "Red,", json!(["r"])),
        (json!({"type": "string", "format": "email"}), "a@example.com", json!("a@example.com")),
        (json!({"type": "string", "format": "date"}), "2026-11-19", json!("2026-11-19")),
        (json!({"type": "string"}), " kept ", json!(" kept ")),
    ] {
        let expected = accept(&json!({"it": value}));
        assert_eq!(answer(&one(&field), &json!({"result": text})), expected, "{field}");
        assert_eq!(answer(&one(&field), &json!({"it": text})), expected, "{field}");
    }
}

#[test]
fn answers_that_do_not_match_are_refused() {
    let cases = [
        (json!({"type": "integer"}), json!("many")),
        (json!({"type": "integer"}), json!(1.5)),
        (json!({"type": "integer", "minimum": 3}), json!(2)),
        (json!({"type": "number", "maximum": 3}), json!("4")),
        (json!({"type": "boolean"}), json!("perhaps")),
        (json!({"type": "string", "minLength": 2}), json!("a")),
        (json!({"type": "string", "enum": ["a"]}), json!("b")),
        (json!({"type": "string", "format": "email"}), json!("nobody")),
        (json!({"type": "string", "format": "date"}), json!("tomorrow")),
        (json!({"type": "string", "format": "date-time"}), json!("tomorrow")),
        (json!({"type": "string", "format": "uri"}), json!("nowhere")),
        (json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}), json!(["b"])),
        (json!({"type": "array", "maxItems": 1, "items": {"enum": ["a", "b"]}}), json!(["a", "b"])),
    ];
    for (field, value) in cases {
        let error = answer(&one(&field), &json!({"it": value}));
        assert!(error.as_str().is_some_and(|error| error.contains("`it`: ")), "{field} {value}: {error}");
    }
    let two = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]});
    let errors: Vec<String> = [
        json!({"result": "x"}),
        json!({}),
        json!({"c": 1}),
        json!({"action": "perhaps"}),
        json!({"action": "accept", "content": 3}),
    ]
    .iter()
    .map(|response| answer(&two, response).as_str().unwrap().to_owned())
    .collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    it must be an object with the fields `a`, `b`
    "a" is a required property
    it has the unknown field `c`; it must have the fields `a`, `b`
    its action is not accept, decline or cancel
    its content is not an object
    "#);
}

#[test]
fn missing_fields_get_their_defaults() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}},
        "required": ["a"],
    });
    assert_eq!(answer(&schema, &json!({})), accept(&json!({"a": "x"})));
    assert_eq!(answer(&schema, &json!({"a": "y", "b": "1"})), accept(&json!({"a": "y", "b": 1})));
}
