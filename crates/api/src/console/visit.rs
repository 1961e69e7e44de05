//! A signed-in user on a page: the session, the project that is shown, and the query.

use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use dashboard::{Frame, NoProjectPage, Person, ProjectLink, Refused, Section, Texts};
use domain::ids::ProjectId;
use form_urlencoded::byte_serialize;
use gateway::{Error, Member, Standing};

use crate::app::App;
use crate::console::choices;
use crate::console::failure::{PageFailure, Result};
use crate::console::language::texts;
use crate::http::auth::{self, BySession, Session};
use crate::http::cross_site;
use crate::http::error::Failure;
use crate::http::own_path::own_path;
use crate::http::session_cookies::SessionCookie;

/// Admits signed-in users, and leads others to the sign-in.
pub(super) async fn signed_in(State(app): State<App>, request: Request, next: Next) -> Response {
    let session = auth::own_session_of(&app, &request, Standing::Full).await;
    admitted(&app, session, request, next).await
}

/// Marks a visit of somebody who has to set up a second factor first.
#[derive(Clone, Copy)]
struct Enrols;

/// Admits signed-in users, also those who have to set up a second factor first.
pub(super) async fn may_enrol(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut session = auth::own_session_of(&app, &request, Standing::Full).await;
    if session.as_ref().is_err_and(Failure::requires_factor) {
        session = auth::own_session_of(&app, &request, Standing::Enrols).await;
        request.extensions_mut().insert(Enrols);
    }
    admitted(&app, session, request, next).await
}

/// Admits an open page of a signed-in user, whose requests do not prolong the session.
pub(super) async fn stays_signed_in(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Response {
    let session = auth::idle_session_of(&app, &request).await;
    admitted(&app, session, request, next).await
}

async fn admitted(
    app: &App,
    session: std::result::Result<Session, Failure>,
    mut request: Request,
    next: Next,
) -> Response {
    match session {
        Ok(session) => {
            request.extensions_mut().insert(session);
            next.run(request).await
        }
        Err(failure) if failure.status() == StatusCode::UNAUTHORIZED => {
            // A form that is sent with a session that is over is lost: its page is shown again.
            let path = if request.method() == Method::GET {
                request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned()
            } else {
                page_of_form(app, &request)
            };
            let mut address = sign_in_path(&path);
            if matches!(SessionCookie::of(app, &request), SessionCookie::Several) {
                // The answer removes them, so the form cannot see why.
                let mark = if address.contains('?') { '&' } else { '?' };
                address = format!("{address}{mark}{SESSIONS}={SEVERAL}");
            }
            Redirect::to(&address).into_response()
        }
        // The page that sets it up.
        Err(failure) if failure.requires_factor() => {
            Redirect::to(Section::Account.path()).into_response()
        }
        Err(failure) => PageFailure::from(failure).into_response(),
    }
}

/// The page that a form was sent from, as its browser names it; the first one if it names none of this console.
fn page_of_form(app: &App, request: &Request) -> String {
    let page = own_path(cross_site::own_page(app, request).unwrap_or("/"));
    let (path, query) = page.split_once('?').unwrap_or((&page, ""));
    if !is_page(path) {
        // The answer to another form, which has the address of that.
        return format!("/{}", path.split('/').nth(1).unwrap_or_default());
    }
    // The notice of an earlier form is no news by then.
    let pairs = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| &**name != "done");
    with_query(path, &pairs.collect::<Vec<_>>())
}

/// Whether a path of the console shows a page, and does not only take a form.
fn is_page(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    matches!(
        parts[..],
        [_] | ["traces" | "jobs" | "models" | "replays", _]
            | ["people", "sign-on" | "tokens"]
            | ["safety", "reviews"]
            | ["traces", _, "steps", _]
    )
}

/// The parameter that names the last row of the page before.
pub(super) const AFTER: &str = "after";
/// The same of the second list of a page, that of invitations.
pub(super) const INVITED_AFTER: &str = "invited_after";
/// The parameter of a sign-in that a browser with several session cookies is led to.
pub(super) const SESSIONS: &str = "sessions";
/// Its value.
pub(super) const SEVERAL: &str = "several";

/// Names and values as a query.
pub(super) fn query_of<T: AsRef<str>>(pairs: &[(T, T)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// A path with a query: places in lists at which its page begins, or filters.
pub(super) fn with_query<T: AsRef<str>>(path: &str, pairs: &[(T, T)]) -> String {
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", query_of(pairs)) }
}

/// A query without some of its names: the place and the size of a page, which are no filters.
pub(super) fn without(query: &[(String, String)], names: &[&str]) -> Vec<(String, String)> {
    query.iter().filter(|(name, _)| !names.contains(&&**name)).cloned().collect()
}

/// The sign-in that leads to a path afterwards.
pub(super) fn sign_in_path(next: &str) -> String {
    if next == "/" {
        return "/sign-in".to_owned();
    }
    format!("/sign-in?next={}", byte_serialize(next.as_bytes()).collect::<String>())
}

/// A visit of a page.
#[derive(Debug)]
pub(super) struct Visit {
    /// The texts of the pages.
    pub(super) t: &'static Texts,
    pub(super) session: Session,
    path: String,
    /// The query, without project and notice.
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    /// Whether a second factor has to be set up before anything else.
    pub(super) enrols: bool,
    /// The projects that the user sees.
    projects: Vec<(ProjectId, String)>,
    project: Option<String>,
    notice: Option<&'static str>,
}

impl FromRequestParts<App> for Visit {
    type Rejection = PageFailure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let BySession(session) = BySession::from_request_parts(parts, app).await?;
        let t = texts();
        let (mut query, mut project, mut notice) = (Vec::new(), None, None);
        let text = parts.uri.query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "project" => project = Some(value.into_owned()),
                "done" => notice = t.notices.of_word(&value),
                _ if value.is_empty() => {}
                _ => query.push((name.into_owned(), value.into_owned())),
            }
        }
        let projects = app.gateway.project_names(&session.member);
        let (path, headers) = (parts.uri.path().to_owned(), parts.headers.clone());
        let enrols = parts.extensions.get::<Enrols>().is_some();
        Ok(Self { t, session, path, query, headers, enrols, projects, project, notice })
    }
}

impl Visit {
    pub(super) fn member(&self) -> &Member {
        &self.session.member
    }

    /// A value of the query.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The values of a name that may be in the query several times.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.query.iter().filter(move |(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The places in its lists at which the page begins, by their parameters; none of a list that is at its beginning.
    pub(super) fn places(&self) -> Vec<(&'static str, &str)> {
        let place = |name: &'static str| Some((name, self.get(name)?));
        [AFTER, INVITED_AFTER].into_iter().filter_map(place).collect()
    }

    /// The path of lists, from the places on at which the page begins.
    pub(super) fn at_place(&self, path: &str) -> String {
        with_query(path, &self.places())
    }

    /// The project that the query names, or the first that the user sees; `None` if they see none, also where one
    /// is named.
    pub(super) fn project(&self) -> std::result::Result<Option<ProjectId>, Failure> {
        self.chosen(self.project.as_deref())
    }

    /// The project that a form names.
    pub(super) fn project_of_form(&self, form: &Form) -> Result<ProjectId> {
        self.any_project_of_form(form)?.ok_or_else(|| self.without_project(StatusCode::NOT_FOUND))
    }

    /// The same of a form that is about more than projects; `None` if the user sees none.
    pub(super) fn any_project_of_form(
        &self,
        form: &Form,
    ) -> std::result::Result<Option<ProjectId>, Failure> {
        self.chosen(form.get("project"))
    }

    fn chosen(&self, named: Option<&str>) -> std::result::Result<Option<ProjectId>, Failure> {
        if self.projects.is_empty() {
            // An address or a form may still name one that is gone.
            return Ok(None);
        }
        let mut seen = self.projects.iter().map(|(id, _)| *id);
        let Some(named) = named else {
            return Ok(seen.next());
        };
        let id = named.parse().ok().map(ProjectId);
        seen.find(|seen| Some(*seen) == id).map(Some).ok_or_else(|| Error::NotFound.into())
    }

    /// The project that is shown. Without any the page says so in its frame, which leads to all that needs none.
    pub(super) fn shown_project(&self) -> Result<ProjectId> {
        // A part of the console is there, and empty; whatever would be in it is not.
        let is_section = Section::of(&self.path).path() == self.path;
        let status = if is_section { StatusCode::OK } else { StatusCode::NOT_FOUND };
        self.project()?.ok_or_else(|| self.without_project(status))
    }

    fn without_project(&self, status: StatusCode) -> PageFailure {
        let section = Section::of(&self.path);
        let frame = self.frame(section, section.name(&self.t.nav), None);
        PageFailure::NoProject(status, Box::new(NoProjectPage { frame }))
    }

    /// The projects to choose from: those around the shown one, so that all of them can be reached.
    fn projects_around(&self, shown: Option<ProjectId>) -> &[(ProjectId, String)] {
        let most = choices::MOST;
        let at = self.projects.iter().position(|(id, _)| Some(*id) == shown).unwrap_or(0);
        let last = self.projects.len().saturating_sub(most);
        let begin = at.saturating_sub(most / 2).min(last);
        &self.projects[begin..self.projects.len().min(begin + most)]
    }

    /// The frame of a page.
    pub(super) fn frame(
        &self,
        section: Section,
        title: impl Into<String>,
        project: Option<ProjectId>,
    ) -> Frame {
        let around = if self.enrols { &[] } else { self.projects_around(project) };
        let projects = around.iter().map(|(id, name)| ProjectLink {
            id: id.0,
            name: name.clone(),
            is_shown: Some(*id) == project,
        });
        let account = &self.session.account;
        Frame {
            t: self.t,
            title: title.into(),
            section,
            person: Person {
                email: account.email.clone(),
                role: account.role.as_str(),
                is_admin: account.role.is_admin(),
                may_call: account.role.may_manage_keys(),
            },
            enrols: self.enrols,
            projects: projects.collect(),
            project: project.map(|id| id.0),
            notice: self.notice.map(str::to_owned),
            fault: None,
            refused: Refused::default(),
        }
    }
}

/// The fields of a form that was sent.
#[derive(Debug)]
pub(super) struct Form(pub(super) Vec<(String, String)>);

impl Form {
    /// A field; one that is empty counts as not given.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The values of a field that may be sent several times.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    /// An amount in US dollars; `fault` is the refusal of one that is none.
    pub(super) fn dollars(
        &self,
        field: &str,
        fault: &str,
    ) -> std::result::Result<Option<f64>, Error> {
        let refusal = || Error::invalid(fault);
        let read = |text: &str| text.trim().trim_start_matches('$').parse().map_err(|_| refusal());
        self.get(field).map(read).transpose()
    }

    /// The text of an area. Browsers send the ends of its lines as two characters.
    pub(super) fn text_area(&self, name: &str) -> String {
        self.text(name).replace("\r\n", "\n")
    }

    /// The text of a field; empty without one.
    pub(super) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }
}

impl FromRequest<App> for Form {
    type Rejection = PageFailure;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        Ok(Self(crate::http::body::read_form(request, app, super::LARGEST_FORM).await?))
    }
}

/// Shows a page again after a form, with what it has done.
pub(super) fn done(path: &str, project: impl Into<Option<ProjectId>>, what: &str) -> Response {
    let project = project.into().map(|project| format!("project={}&", project.0));
    let project = project.unwrap_or_default();
    let mark = if path.contains('?') { '&' } else { '?' };
    Redirect::to(&format!("{path}{mark}{project}done={what}")).into_response()
}
