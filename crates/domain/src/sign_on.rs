//! Single sign-on: the role and the projects that the groups of a user give.

use crate::ids::ProjectId;
use crate::project::Role;

/// A rule: whoever has a value in the claim of the groups gets a role and projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOnRule {
    /// The value, compared as it is.
    pub claim_value: String,
    /// The role; never owner.
    pub role: Role,
    /// The projects that they are a member of.
    pub projects: Vec<ProjectId>,
}

/// The role and the projects of a user with these groups: those of the first rule that fits, else the default
/// role without a project. `None` if there is neither. Nobody becomes an owner by it.
pub fn assigned<'a>(
    rules: &'a [SignOnRule],
    groups: &[&str],
    default: Option<Role>,
) -> Option<(Role, &'a [ProjectId])> {
    let fits = |rule: &&SignOnRule| groups.contains(&rule.claim_value.as_str());
    let rule = rules.iter().filter(|rule| rule.role != Role::Owner).find(fits);
    let default = default.filter(|role| *role != Role::Owner);
    rule.map(|rule| (rule.role, rule.projects.as_slice())).or(default.map(|role| (role, &[][..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides_and_nobody_becomes_an_owner() {
        let rule = |value: &str, role, projects: &[i64]| SignOnRule {
            claim_value: value.to_owned(),
            role,
            projects: projects.iter().copied().map(ProjectId).collect(),
        };
        let rules = [
            rule("bosses", Role::Owner, &[]),
            rule("ops", Role::Admin, &[]),
            rule("eng", Role::Member, &[1, 2]),
            rule("eng-eu", Role::Viewer, &[3]),
        ];
        for (groups, default, expected) in [
            (&["eng"][..], None, Some((Role::Member, &[1, 2][..]))),
            (&["eng-eu", "eng"], None, Some((Role::Member, &[1, 2]))),
            (&["eng-eu"], None, Some((Role::Viewer, &[3]))),
            (&["eng", "ops"], Some(Role::Viewer), Some((Role::Admin, &[]))),
            (&["ENG"], None, None),
            (&["eng "], None, None),
            (&["en"], Some(Role::Member), Some((Role::Member, &[]))),
            (&[], Some(Role::Viewer), Some((Role::Viewer, &[]))),
            (&[], None, None),
            (&["bosses"], None, None),
            (&["bosses", "eng"], None, Some((Role::Member, &[1, 2]))),
            (&[], Some(Role::Owner), None),
        ] {
            let found = assigned(&rules, groups, default);
            let found = found.map(|(role, projects)| {
                (role, projects.iter().map(|project| project.0).collect::<Vec<_>>())
            });
            let expected = expected.map(|(role, projects)| (role, projects.to_vec()));
            assert_eq!(found, expected, "{groups:?} {default:?}");
        }
    }
}
