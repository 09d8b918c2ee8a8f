//! A fact that was stated anywhere in the conversations of a user is reachable: the request shows it, or it is in one of the
//! first five results of `recall`. Its newest version comes first, and no result holds text of another user or app.
//!
//! `PROPTEST_CASES` and `PROPTEST_RNG_SEED` set the number of cases and the seed.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test at its line")]

use adk::{agent::LlmAgent, content::Content, event::Event, session::SessionKey};
use bridge::{
    Agent, Budget, Memory, ModelAdapter,
    memory::{Passage, PassageMessage, SearchQuery},
    store::row::save,
};
use futures::StreamExt;
use provider::{ModelId, ModelRequest, ModelStream, Provider};
use session::{
    Commit, IndexProgress, NewSession, OnConflict, Store,
    sqlite::{Options, SqliteStore},
};
use std::sync::Arc;
use testkit::random::SplitMix64;

const CASES: u64 = 300;
const SEED: u64 = 7;

/// The sentences of one language. `{thing}` and `{code}` are filled in.
struct Language {
    name: &'static str,
    facts: &'static [&'static str],
    updates: &'static [&'static str],
    query: &'static str,
    things: &'static [&'static str],
    chatter: &'static [&'static str],
}

const LANGUAGES: [Language; 6] = [
    Language {
        name: "English",
        facts: &[
            "My {thing} code is {code}.",
            "Please remember that the code of the {thing} is {code}, thanks!",
        ],
        updates: &["The {thing} code changed, it is {code} now.", "Correction: my {thing} code is {code}."],
        query: "{thing} code",
        things: &["locker", "garage", "bicycle lock", "office door", "safe", "alarm", "mailbox", "gym"],
        chatter: &[
            "What is the weather like in Lisbon today?",
            "Write a short poem about a code review.",
            "The garage was noisy and the office is closed.",
            "How do I open a door that is stuck?",
            "Summarise the meeting about the new mailbox policy.",
            "My bicycle needs new tyres before summer.",
        ],
    },
    Language {
        name: "German",
        facts: &["Der Code für {thing} lautet {code}.", "Merke dir bitte: {thing} hat den Code {code}."],
        updates: &["Der Code für {thing} lautet jetzt {code}.", "Neuer Code für {thing}: {code}."],
        query: "Code {thing}",
        things: &[
            "das Gartentor",
            "die Übergabestation",
            "den Schließfachraum",
            "das Fahrrad",
            "die Küche",
            "den Tresor",
        ],
        chatter: &[
            "Wie wird das Wetter morgen in Zürich?",
            "Schreibe ein Gedicht über das Meer und die Möwen.",
            "Das Fahrrad steht im Hof, die Küche ist geputzt.",
            "Kannst du mir den Quelltext erklären?",
            "Für das Treffen brauche ich noch einen Raum.",
        ],
    },
    Language {
        name: "Chinese",
        facts: &["我的{thing}密码是{code}。", "请记住，{thing}的密码是{code}，谢谢。"],
        updates: &["{thing}密码改了，现在是{code}。", "更正：我的{thing}密码是{code}。"],
        query: "{thing}密码",
        things: &["储物柜", "车库", "自行车", "办公室", "保险箱", "信箱", "猫", "健身房"],
        chatter: &[
            "今天里斯本的天气怎么样？",
            "写一首关于大海的短诗。",
            "办公室今天不开门，车库很吵。",
            "怎么打开卡住的门？",
            "总结一下昨天会议的内容。",
            "自行车夏天之前需要换轮胎。",
        ],
    },
    Language {
        name: "Korean",
        facts: &["제 {thing} 비밀번호는 {code}입니다.", "{thing} 비밀번호가 {code}인 것을 기억해 주세요."],
        updates: &[
            "{thing} 비밀번호가 바뀌어서 이제 {code}입니다.",
            "정정: {thing} 비밀번호는 {code}입니다.",
        ],
        query: "{thing} 비밀번호",
        things: &["사물함", "차고", "자전거", "사무실", "금고", "우편함", "헬스장"],
        chatter: &[
            "오늘 리스본 날씨가 어떤가요?",
            "바다에 대한 짧은 시를 써 주세요.",
            "사무실은 오늘 닫혀 있고 차고는 시끄러워요.",
            "문이 열리지 않을 때는 어떻게 하나요?",
            "어제 회의 내용을 요약해 주세요.",
        ],
    },
    Language {
        name: "Japanese",
        facts: &[
            "私の{thing}の暗証番号は{code}です。",
            "{thing}の暗証番号は{code}だと覚えておいてください。",
        ],
        updates: &["{thing}の暗証番号が変わり、今は{code}です。", "訂正：{thing}の暗証番号は{code}です。"],
        query: "{thing} 暗証番号",
        things: &["ロッカー", "車庫", "自転車", "事務所", "金庫", "郵便受け", "ジム"],
        chatter: &[
            "今日のリスボンの天気はどうですか？",
            "海についての短い詩を書いてください。",
            "事務所は今日は閉まっていて、車庫はうるさいです。",
            "開かないドアはどうすればいいですか？",
            "昨日の会議を要約してください。",
        ],
    },
    Language {
        name: "code",
        facts: &[
            "const {thing}Port: u16 = {code}; // in src/net_config.rs",
            "`{thing}_port` is set to {code} in config.toml",
        ],
        updates: &["const {thing}Port: u16 = {code};", "the option `{thing}_port` is {code} from now on"],
        query: "{thing} port",
        things: &["gateway", "metrics", "replica", "ingest", "scheduler", "websocket", "billing"],
        chatter: &[
            "fn parse_header(line: &str) -> Option<(&str, &str)> { line.split_once(':') }",
            "Why does `cargo check` complain about lifetimes in src/parser.rs?",
            "The gateway restarts when the scheduler is slow.",
            "let port = listener.local_addr()?.port();",
            "Rename MetricsRegistry to Registry, please.",
        ],
    },
];

/// No model is called.
struct UncalledModel;

impl Provider for UncalledModel {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        futures::stream::empty().boxed()
    }
}

struct ConversationWorld {
    store: Arc<dyn Store>,
    agent: Agent,
    memory: Memory,
    _dir: tempfile::TempDir,
}

impl ConversationWorld {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(dir.path().join("lango.db"), Options::default()).unwrap());
        let budget = Budget::new(700, None).unwrap();
        let root = LlmAgent::new("agent", Arc::new(ModelAdapter::new(Arc::new(UncalledModel), "m", budget)));
        let agent = Agent::new(Arc::clone(&store), root, budget).unwrap();
        let memory = Memory::new(Arc::clone(&store));
        Self { store, agent, memory, _dir: dir }
    }

    /// Stores a conversation of (author, text), one second apart from `at`.
    async fn store(&self, key: &SessionKey, at: f64, exchanges: &[(String, String)]) {
        let state = Vec::new();
        let new = NewSession {
            key: key.clone(),
            state,
            steps: Vec::new(),
            on_conflict: OnConflict::Fail,
            quota: None,
        };
        self.store.create(new).await.unwrap();
        let mut messages = Vec::new();
        let mut time = at;
        for (question, answer) in exchanges {
            for (author, role, text) in [("user", "user", question), ("agent", "model", answer)] {
                let mut event = Event::new("run", author);
                event.content = Some(Content::new(role, vec![adk::content::Part::text(text.clone())]));
                time += 1.0;
                event.timestamp = time;
                messages.push(save(&event).unwrap());
            }
        }
        self.store.commit(key, Commit { messages, ..Commit::default() }).await.unwrap();
    }

    /// The text of the request that the session would send now.
    async fn shown(&self, key: &SessionKey) -> String {
        let target = ModelId { provider: "scripted".into(), model: "m".into() };
        format!("{:?}", self.agent.preview(key, target).await.unwrap())
    }

    async fn recall(&self, key: &SessionKey, text: &str) -> Vec<String> {
        let query = SearchQuery {
            user: key.user_id.clone(),
            app: Some(key.app_name.clone()),
            text: text.to_owned(),
            limit: 5,
            ..SearchQuery::default()
        };
        // A search waits for the index only so long.
        self.store.check_index();
        while self.store.index_next().await.unwrap() == IndexProgress::More {}
        let recalled = self.memory.search(query).await.unwrap();
        let text = |message: &PassageMessage| message.text.clone();
        let of_passage = |passage: &Passage| passage.messages.iter().map(text).collect::<Vec<_>>().join("\n");
        recalled.passages.iter().map(of_passage).collect()
    }
}

fn filled(template: &str, thing: &str, code: u64) -> String {
    template.replace("{thing}", thing).replace("{code}", &code.to_string())
}

/// An exchange about something else: small talk, or a fact about another thing.
fn chatter(random: &mut SplitMix64, language: &Language, thing: &str) -> (String, String) {
    let other = random.choose(language.things).unwrap();
    let question = if random.below(4) == 0 && *other != thing {
        filled(random.choose(language.facts).unwrap(), other, 1000 + random.below(1000))
    } else {
        (*random.choose(language.chatter).unwrap()).to_owned()
    };
    let length = usize::try_from(1 + random.below(4)).unwrap();
    let answer = (0..length).map(|_| *random.choose(language.chatter).unwrap()).collect::<Vec<_>>().join(" ");
    (question, answer)
}

/// A case: where the fact and its later version are stated.
struct PlantedFact {
    label: String,
    language: &'static Language,
    thing: &'static str,
    user: String,
    sessions: u64,
    planted_in: u64,
    /// The session of the later version, if there is one.
    updated_in: Option<u64>,
    first: u64,
    newest: u64,
    foreign: u64,
}

impl PlantedFact {
    fn new(random: &mut SplitMix64, (seed, number): (u64, u64)) -> Self {
        let language = random.choose(&LANGUAGES).unwrap();
        let thing = *random.choose(language.things).unwrap();
        let sessions = 1 + random.below(3);
        let planted_in = random.below(sessions);
        let updated_in = planted_in + random.below(sessions - planted_in);
        Self {
            label: format!("case {number} of seed {seed}: {}, {thing}", language.name),
            language,
            thing,
            user: format!("user{number}"),
            sessions,
            planted_in,
            updated_in: Some(updated_in).filter(|_| random.below(2) == 0),
            first: 20_000 + number,
            newest: 40_000 + number,
            foreign: 60_000 + number,
        }
    }

    fn key(&self, session: u64) -> SessionKey {
        SessionKey::new("app", &self.user, format!("s{session}"))
    }

    fn stated(&self, random: &mut SplitMix64, templates: &[&str], code: u64) -> (String, String) {
        let fact = filled(random.choose(templates).unwrap(), self.thing, code);
        (fact, self.language.chatter[0].to_owned())
    }

    fn exchanges(&self, random: &mut SplitMix64, session: u64) -> Vec<(String, String)> {
        let length = 5 + random.below(60);
        let mut exchanges: Vec<_> = (0..length).map(|_| chatter(random, self.language, self.thing)).collect();
        let mut after = 0;
        if session == self.planted_in {
            let at = usize::try_from(random.below(length)).unwrap();
            exchanges.insert(at, self.stated(random, self.language.facts, self.first));
            after = at + 1;
        }
        if self.updated_in == Some(session) {
            let at = after + usize::try_from(random.below((exchanges.len() + 1 - after) as u64)).unwrap();
            exchanges.insert(at, self.stated(random, self.language.updates, self.newest));
        }
        exchanges
    }
}

/// Returns whether the request shows the fact, and whether it has a later version.
async fn check_case(world: &ConversationWorld, seed: u64, number: u64) -> (bool, bool) {
    let random = &mut SplitMix64::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
    let case = PlantedFact::new(random, (seed, number));
    let mut at = 0.0;
    for session in 0..case.sessions {
        at += 1_000_000.0;
        world.store(&case.key(session), at, &case.exchanges(random, session)).await;
    }
    let fact = [case.stated(random, case.language.facts, case.foreign)];
    let stranger = format!("stranger{number}");
    for key in [SessionKey::new("app", stranger, "s0"), SessionKey::new("other", &case.user, "s0")] {
        world.store(&key, 9e9, &fact).await;
    }
    let key = case.key(case.sessions - 1);
    let PlantedFact { label, updated_in, newest, first, foreign, .. } = &case;
    let expected = if updated_in.is_some() { newest } else { first }.to_string();
    let results = world.recall(&key, &filled(case.language.query, case.thing, 0)).await;
    let is_recalled = results.iter().any(|result| result.contains(&expected));
    let is_shown = world.shown(&key).await.contains(&expected);
    assert!(is_recalled || is_shown, "{label}: {expected} is not reachable: {results:#?}");
    assert!(!results.iter().any(|result| result.contains(&foreign.to_string())), "{label}: {results:#?}");
    let is_first = results.first().is_some_and(|first| first.contains(&expected));
    assert!(is_first || updated_in.is_none(), "{label}: {expected} is not first: {results:#?}");
    (is_shown, updated_in.is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planted_fact_is_reachable_and_only_by_its_user() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let (cases, seed) =
        (setting("PROPTEST_CASES").unwrap_or(CASES), setting("PROPTEST_RNG_SEED").unwrap_or(SEED));
    let world = ConversationWorld::new();
    let (mut shown, mut updated) = (0, 0);
    for number in 0..cases {
        let (is_shown, is_updated) = check_case(&world, seed, number).await;
        shown += u64::from(is_shown);
        updated += u64::from(is_updated);
    }
    println!("{cases} cases with seed {seed}: {shown} shown, {updated} with a later version");
    assert!(shown < cases && updated > 0, "most facts have left the window");
}
