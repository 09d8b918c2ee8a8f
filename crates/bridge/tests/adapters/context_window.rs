//! The context window over long sessions: each request of an agent begins with its previous one until the front advances, and
//! an advance is rare, stored, and the same in every process.

use crate::common::{Backend, Fake, Shared, backends, call, calls, done, key, messages, say, stub, text};
use adk::{
    agent::LlmAgent,
    content::{Content, FunctionResponse, Part},
    pending::REQUEST_CONFIRMATION,
    runner::RunRequest,
    session::{Session, SessionService},
};
use bridge::{
    Agent, Budget, ModelAdapter,
    agent::inspect::{BodyCheck, CallSelection},
    model::{ModelTarget, RetryPolicy},
    view::cost,
};
use provider::{Error, ModelRequest, Role, StreamEvent};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use testkit::ProviderApi;

const BUDGET: u32 = 2_000;
const WORDS: &str =
    "several words that a person might say about the weather in the mountains and at the sea ";

/// A generator of pseudo-random numbers (xorshift).
struct TurnRandom(u64);

impl TurnRandom {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn words(&mut self) -> String {
        let length = usize::try_from(20 + self.below(60)).unwrap();
        WORDS.repeat(3).chars().skip(usize::try_from(self.below(20)).unwrap()).take(length * 2).collect()
    }
}

fn budget() -> Budget {
    Budget::new(BUDGET, None).unwrap()
}

fn named(name: &str, model: &Arc<Fake>) -> LlmAgent {
    let tools = vec![
        stub(json!({"name": "look", "response": {"seen": "{what}"}})),
        stub(json!({"name": "danger", "confirm": true, "response": {"done": "{what}"}})),
    ];
    let model = Arc::new(ModelAdapter::new(model.clone(), "m1", budget()));
    LlmAgent { tools, instruction: format!("You are {name}."), ..LlmAgent::new(name, model) }
}

/// An agent of a process that has just started.
async fn start(store: &Shared, model: &Arc<Fake>) -> Agent {
    let root = LlmAgent { sub_agents: vec![named("helper", model)], ..named("root", model) };
    let agent = Agent::new(store.clone(), root, budget()).unwrap();
    agent.sessions().get_or_create(&key()).await.unwrap();
    agent
}

fn thinking(random: &mut TurnRandom) -> Vec<StreamEvent> {
    let thought = StreamEvent::Thought { text: random.words(), signature: Some("c2ln".to_owned()) };
    vec![thought, text(&random.words()), done()]
}

/// A session of scripted turns, some of them after a restart.
struct Script {
    backend: Backend,
    model: Arc<Fake>,
    random: TurnRandom,
    agent: Agent,
}

impl Script {
    async fn new(backend: Backend, seed: u64) -> Self {
        let model = Fake::echo();
        let agent = start(&backend.store, &model).await;
        Self { backend, model, random: TurnRandom(seed), agent }
    }

    async fn turn(&mut self) {
        if self.random.below(12) == 0 {
            self.agent = start(&self.backend.again(), &self.model).await;
        }
        let kind = self.random.below(10);
        let words = self.random.words();
        let answer = vec![text(&self.random.words()), done()];
        match kind {
            0 | 1 => self.model.then([thinking(&mut self.random)]),
            2 | 3 => {
                let look = |id: &str| call(id, "look", json!({"what": words}));
                let both = vec![look("a"), look("b"), done()];
                self.model.then([both, calls("c", "look", json!({"what": "it"})), answer]);
            }
            4 => self.model.then([calls("d", "danger", json!({"what": words})), answer]),
            5 => {
                let active = self.session().await.pending().active_agent.clone();
                let target = if active.as_deref() == Some("helper") { "root" } else { "helper" };
                self.model.then([calls("t", "transfer_to_agent", json!({"agent_name": target})), answer]);
            }
            _ => self.model.then([answer]),
        }
        self.agent.run_and_collect(say(&self.random.words())).await.unwrap();
        let questions: Vec<String> =
            self.session().await.pending().questions.iter().map(|question| question.id.clone()).collect();
        for id in questions {
            let response = json!({"confirmed": self.random.below(2) == 0});
            let part = Part::from(FunctionResponse::new(&id, REQUEST_CONFIRMATION, response));
            let reply = RunRequest::message(key(), Content::new("user", vec![part]));
            self.agent.run_and_collect(reply).await.unwrap();
        }
    }

    /// Each body that was sent equals the one that is built from the log.
    async fn verify_bodies(&self) {
        let sent = self.model.requests().len();
        let calls = self.agent.model_calls(&key(), CallSelection::Newest(sent)).await.unwrap();
        assert_eq!(calls.len(), sent);
        for call in calls {
            assert_eq!(call.check, BodyCheck::Verified, "{:?}", call.answer);
        }
    }

    async fn logged_tokens(&self) -> u64 {
        let loaded = self.backend.store.load(&key(), session::TailBudget::NONE).await.unwrap();
        loaded.unwrap().row.total_tokens
    }

    async fn session(&self) -> bridge::SessionAdapter {
        self.agent.sessions().get(&key()).await.unwrap().unwrap()
    }
}

fn conversation_cost(request: &ModelRequest) -> u32 {
    let conversation = request.messages.iter().filter(|message| message.role != Role::System);
    conversation.map(cost::of_message).sum()
}

/// The request in each wire format, without cache marks: everything but the list of messages, and that list.
fn encodings(request: &ModelRequest) -> Vec<(ProviderApi, Value, Vec<Value>)> {
    let formats = [
        (ProviderApi::OpenAi, provider::openai::encode(request, true), "messages"),
        (ProviderApi::Responses, provider::responses::encode(request, true), "input"),
        (ProviderApi::Anthropic, provider::anthropic::encode(request, true), "messages"),
        (ProviderApi::Gemini, provider::gemini::encode(request, true), "contents"),
        (ProviderApi::Ollama, provider::ollama::encode(request, true), "messages"),
    ];
    let parts = |(api, body, list): (ProviderApi, Value, &str)| {
        let violations = testkit::legal::check(api, &body);
        assert!(violations.is_empty(), "{api:?}: {violations:#?} in {body:#}");
        let mut body = without_marks(body);
        let messages = body[list].take();
        let Value::Array(messages) = messages else { panic!("{api:?}: {messages}") };
        (api, body, messages)
    };
    formats.into_iter().map(parts).collect()
}

fn without_marks(mut body: Value) -> Value {
    match &mut body {
        Value::Object(map) => {
            map.shift_remove("cache_control");
            map.values_mut().for_each(|value| *value = without_marks(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| *value = without_marks(value.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    body
}

/// What two consecutive requests of an agent have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequestStep {
    /// The first request is a prefix of the second one in every format.
    Prefix,
    Advance,
}

/// A request with its encodings.
struct Sent<'a> {
    request: &'a ModelRequest,
    encodings: Vec<(ProviderApi, Value, Vec<Value>)>,
}

impl<'a> Sent<'a> {
    fn new(request: &'a ModelRequest) -> Self {
        Self { request, encodings: encodings(request) }
    }

    fn followed_by(&self, after: &Self) -> RequestStep {
        let mut is_prefix = true;
        for ((api, head, old), (_, next_head, new)) in self.encodings.iter().zip(&after.encodings) {
            assert_eq!(head, next_head, "{api:?}");
            is_prefix &= new.starts_with(old);
        }
        let has_advanced = self.request.messages[1] != after.request.messages[1];
        assert!(is_prefix != has_advanced, "{}", picture(self.request, after.request));
        if is_prefix { RequestStep::Prefix } else { RequestStep::Advance }
    }
}

/// The messages after the common prefix.
fn picture(before: &ModelRequest, after: &ModelRequest) -> String {
    let common = before.messages.iter().zip(&after.messages).take_while(|(old, new)| old == new).count();
    let rest = |request: &ModelRequest| format!("{:#?}", &request.messages[common..]);
    format!("{common} messages are equal, then\n{}\nand\n{}", rest(before), rest(after))
}

fn agent_of(request: &ModelRequest) -> String {
    format!("{:?}", request.messages[0])
}

/// The value of an environment variable.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

/// `LANGO_WINDOW_TURNS=1000 LANGO_WINDOW_SEED=…` runs a longer session, or another one.
#[tokio::test]
async fn requests_of_each_agent_are_prefixes_of_the_next_one_between_advances() {
    let (seed, turns) = (number("LANGO_WINDOW_SEED", 20_261_119), number("LANGO_WINDOW_TURNS", 200));
    let mut script = Script::new(Backend::memory(), seed).await;
    // The tokens of the log before each request.
    let mut logged = Vec::new();
    for _ in 0..turns {
        script.turn().await;
        let tokens = script.logged_tokens().await;
        logged.resize(script.model.requests().len(), tokens);
    }
    script.verify_bodies().await;
    let requests = script.model.requests();
    let mut last: HashMap<String, (Sent<'_>, u64)> = HashMap::new();
    let mut steps: BTreeMap<RequestStep, usize> = BTreeMap::new();
    for (request, &tokens) in requests.iter().zip(&logged) {
        let shown = conversation_cost(request);
        assert!(shown <= BUDGET, "{shown} tokens");
        let (agent, sent) = (agent_of(request), Sent::new(request));
        let Some((before, advanced)) = last.remove(&agent) else {
            last.insert(agent, (sent, tokens));
            continue;
        };
        let step = before.followed_by(&sent);
        *steps.entry(step).or_default() += 1;
        if step == RequestStep::Advance {
            // At most half of the budget is shown after an advance, and half of it was new before the next one.
            assert!(shown <= BUDGET / 2, "seed {seed}: {shown} tokens after an advance");
            let new = tokens - advanced;
            assert!(new + 300 > u64::from(BUDGET / 2), "seed {seed}: advanced after {new} tokens");
        }
        last.insert(agent, (sent, if step == RequestStep::Advance { tokens } else { advanced }));
    }
    assert_eq!(last.len(), 2, "both agents were called");
    println!("seed {seed}: {steps:?}");
    let advances = steps[&RequestStep::Advance];
    assert!(
        advances as u64 > turns / 20 && steps[&RequestStep::Prefix] > advances * 10,
        "seed {seed}: {steps:?}"
    );
}

/// Says the same number of words until the front advances, and returns the first words of the request that advanced it.
async fn advance(agent: &Agent, model: &Fake) -> Vec<String> {
    let mut last = 0;
    loop {
        agent.run_and_collect(say(&WORDS.repeat(4))).await.unwrap();
        let request = model.last_request();
        if request.messages.len() < last {
            return messages(&request.messages);
        }
        last = request.messages.len();
    }
}

async fn stored_fronts(store: &Shared) -> Vec<String> {
    let snapshot = store.load(&key(), session::TailBudget::NONE).await.unwrap().unwrap();
    let fronts = snapshot.pending.into_iter().filter(|entry| entry.kind == "front");
    fronts.map(|entry| format!("{} {}", entry.id, entry.value)).collect()
}

#[tokio::test]
async fn front_is_stored_by_the_answer_and_the_same_in_every_process() {
    for backend in backends() {
        let model = Fake::echo();
        let agent = start(&backend.store, &model).await;
        let advanced = advance(&agent, &model).await;
        let fronts = stored_fronts(&backend.store).await;
        assert_eq!(fronts.len(), 1, "{}: {fronts:?}", backend.name);

        let other = start(&backend.again(), &model).await;
        other.run_and_collect(say("and now?")).await.unwrap();
        let request = messages(&model.last_request().messages);
        assert!(request.starts_with(&advanced), "{}: {request:#?}\nafter\n{advanced:#?}", backend.name);
        assert_eq!(stored_fronts(&backend.store).await, fronts);
    }
}

#[tokio::test]
async fn preview_does_not_move_the_front() {
    let backend = Backend::memory();
    let model = Fake::echo();
    let agent = start(&backend.store, &model).await;
    advance(&agent, &model).await;
    let fronts = stored_fronts(&backend.store).await;
    let target = provider::ModelId { provider: "fake".to_owned(), model: "m1".to_owned() };
    let mut service = agent.sessions().get(&key()).await.unwrap().unwrap();
    for _ in 0..12 {
        let words = adk::event::Event {
            content: Some(Content::user(WORDS.repeat(8))),
            ..adk::event::Event::new("i", "user")
        };
        agent.sessions().append(&mut service, words).await.unwrap();
    }
    let preview = agent.preview(&key(), target).await.unwrap();
    assert!(conversation_cost(&preview) <= BUDGET / 2);
    assert_eq!(stored_fronts(&backend.store).await, fronts);
}

#[tokio::test]
async fn smaller_model_shows_a_suffix_that_advances_in_strides_and_is_not_stored() {
    let backend = Backend::memory();
    let (large, small) = (Fake::echo(), Fake::called("small", Vec::new()));
    let context = Some(1_500);
    let target = |fake: &Arc<Fake>| ModelTarget::new(fake.clone(), "m1", budget());
    let retries = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let adapter = ModelAdapter::with_fallbacks(target(&large), vec![target(&small).with_context(context)]);
    let root = LlmAgent::new("root", Arc::new(adapter.with_retries(retries)));
    let agent = Agent::new(backend.store.clone(), root, budget()).unwrap();
    agent.sessions().get_or_create(&key()).await.unwrap();
    let down = || {
        let (provider, message) = ("fake".to_owned(), "down".to_owned());
        StreamEvent::Error(Error::Transient { provider, message, retry_after: None, source: None })
    };
    let (mut prefixes, mut advances) = (0, 0);
    let mut last: Option<ModelRequest> = None;
    while stored_fronts(&backend.store).await.is_empty() {
        large.then([vec![down()]]);
        agent.run_and_collect(say(&WORDS.repeat(2))).await.unwrap();
        let request = small.last_request();
        assert!(conversation_cost(&request) <= 1_200);
        if let Some(last) = last {
            let is_prefix = request.messages.starts_with(&last.messages);
            prefixes += usize::from(is_prefix);
            advances += usize::from(!is_prefix);
        }
        last = Some(request);
    }
    // The last one is that of the large model.
    assert!(advances >= 2 && prefixes > advances * 3, "{advances} advances, {prefixes} prefixes");
}
