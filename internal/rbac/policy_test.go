package rbac

import (
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// list splits a list at commas. "" is none.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// ruleOf returns a rule: verbs, groups, resources, names, paths.
func ruleOf(verbs, groups, resources, names, paths string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: list(verbs), Resources: list(resources), ResourceNames: list(names), NonResourceURLs: list(paths)}
	if r.Resources != nil {
		r.APIGroups = strings.Split(groups, ",")
	}
	return r
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

// subjectsOf parses subjects, such as "User:ann,Group:dev,ServiceAccount:NAMESPACE/NAME".
func subjectsOf(text string) []rbacv1.Subject {
	var out []rbacv1.Subject
	for _, one := range list(text) {
		kind, name, _ := strings.Cut(one, ":")
		s := rbacv1.Subject{Kind: kind, Name: name}
		if kind == rbacv1.ServiceAccountKind {
			s.Namespace, s.Name, _ = strings.Cut(name, "/")
		}
		out = append(out, s)
	}
	return out
}

func refTo(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func bindAll(role, subjects string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: refTo("ClusterRole", role), Subjects: subjectsOf(subjects)}
}

func bindIn(namespace, kind, role, subjects string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}, RoleRef: refTo(kind, role), Subjects: subjectsOf(subjects),
	}
}

// userOf returns a user: its name, and groups.
func userOf(name, groups string) *authenticationv1.UserInfo {
	return &authenticationv1.UserInfo{Username: name, Groups: list(groups)}
}

// TestRulesOfUser has the rows of upstream's TestDefaultRuleResolver.
func TestRulesOfUser(t *testing.T) {
	pods, services := ruleOf("GET,WATCH", "v1", "pods", "", ""), ruleOf("GET,WATCH", "v1", "services", "", "")
	everything := ruleOf("*", "*", "*", "", "")
	p := NewPolicy(Objects{
		Roles: []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "read"}, Rules: []rbacv1.PolicyRule{pods, services}}},
		ClusterRoles: []*rbacv1.ClusterRole{
			clusterRole("admin", everything), clusterRole("write", ruleOf("PUT,CREATE,UPDATE", "v1", "nodes", "", "")),
		},
		RoleBindings:        []*rbacv1.RoleBinding{bindIn("one", "Role", "read", "User:ann,Group:dev")},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindAll("admin", "User:root,Group:admins")},
	})
	for _, tt := range []struct {
		name      string
		user      *authenticationv1.UserInfo
		namespace string
		want      []rbacv1.PolicyRule
	}{
		{"in the namespace of the binding", userOf("ann", ""), "one", []rbacv1.PolicyRule{pods, services}},
		{"in another namespace", userOf("ann", ""), "two", nil},
		{"of the cluster only", userOf("ann", "admins"), "", []rbacv1.PolicyRule{everything}},
		{"no name", userOf("", ""), "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules, err := p.RulesFor(tt.user, tt.namespace)
			testcheck.NoError(t, err)
			testcheck.Equal(t, "rules", tt.want, rules)
		})
	}
}

// TestSubjects has the rows of upstream's TestAppliesTo: a role of a namespace is bound to subjects.
func TestSubjects(t *testing.T) {
	const everyone = "Group:system:authenticated,Group:system:unauthenticated"
	for _, tt := range []struct {
		name, subjects string
		user           *authenticationv1.UserInfo
		want           bool
	}{
		{"the user", "User:ann", userOf("ann", ""), true},
		{"the second is the user", "User:bob,User:ann", userOf("ann", ""), true},
		{"no user", "User:bob,User:ann", userOf("eve", ""), false},
		{"a group", "User:bob,Group:ann", userOf("eve", "ann"), true},
		{"a group, in a namespace", "User:bob,Group:dev", userOf("eve", "dev"), true},
		{"a group is no user", "Group:ann", userOf("ann", ""), false},
		{"an account of another namespace", "User:bob,Group:ann,ServiceAccount:kube-system/default", userOf("system:serviceaccount:kube-system:default", ""), true},
		{"an account of the binding's namespace", "ServiceAccount:/default", userOf("system:serviceaccount:one:default", ""), true},
		{"an account of that name elsewhere", "ServiceAccount:/default", userOf("system:serviceaccount:two:default", ""), false},
		{"a star is a name", "User:*", userOf("ann", ""), false},
		{"everyone, authenticated", everyone, userOf("ann", "system:authenticated"), true},
		{"everyone, anonymous", everyone, userOf("system:anonymous", "system:unauthenticated"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPolicy(Objects{
				ClusterRoles: []*rbacv1.ClusterRole{clusterRole("r", ruleOf("get", "", "pods", "", ""))},
				RoleBindings: []*rbacv1.RoleBinding{bindIn("one", "ClusterRole", "r", tt.subjects)},
			})
			allowed, _ := p.Authorize(Attributes{User: tt.user, Verb: "get", Resource: "pods", Namespace: "one"})
			testcheck.Equal(t, "allowed", tt.want, allowed)
		})
	}
}

// TestAuthorize has the rows of upstream's TestAuthorizer: "USER GROUPS VERB RESOURCE NAMESPACE" or, for a path, "USER GROUPS VERB PATH",
// with "-" for nothing.
func TestAuthorize(t *testing.T) {
	request := func(text string) Attributes {
		parts := strings.Fields(strings.ReplaceAll(text, "-", `""`))
		for i, part := range parts {
			parts[i] = strings.ReplaceAll(part, `""`, "")
		}
		a := Attributes{User: userOf(parts[0], parts[1]), Verb: parts[2]}
		if len(parts) == 4 {
			a.Path = parts[3]
			return a
		}
		a.Resource, a.Subresource, _ = strings.Cut(parts[3], "/")
		a.Namespace = parts[4]
		return a
	}
	for _, tt := range []struct {
		name            string
		objects         Objects
		allowed, denied []string
	}{
		{
			"a cluster role in a namespace",
			Objects{
				ClusterRoles: []*rbacv1.ClusterRole{clusterRole("admin", ruleOf("*", "*", "*", "", ""))},
				RoleBindings: []*rbacv1.RoleBinding{bindIn("ns1", "ClusterRole", "admin", "User:admin,Group:admins")},
			},
			[]string{
				"admin - get Pods ns1", "admin - watch Pods ns1", "admin group1 watch Foobar ns1", "joe admins watch Foobar ns1", "joe group1,admins watch Foobar ns1",
			},
			[]string{"admin - GET Pods ns2", "admin - GET Nodes -", "admin admins GET Pods ns2", "admin admins GET Nodes -"},
		},
		{
			"paths",
			Objects{
				ClusterRoles: []*rbacv1.ClusterRole{
					clusterRole("getter", ruleOf("get", "", "", "", "/apis")), clusterRole("all", ruleOf("*", "", "", "", "/apis")),
					clusterRole("prefix", ruleOf("get", "", "", "", "/apis/*")),
				},
				ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{
					bindAll("getter", "User:foo,Group:bar"), bindAll("all", "User:admin,Group:admin"), bindAll("prefix", "User:prefixed,Group:prefixed"),
				},
			},
			[]string{
				"foo - get /apis", "- bar get /apis", "admin - get /apis", "- admin get /apis", "admin - watch /apis", "- admin watch /apis",
				"prefixed - get /apis/v1", "- prefixed get /apis/v1", "prefixed - get /apis/v1/foobar", "- prefixed get /apis/v1/foobar",
			},
			[]string{
				"foo - watch /apis", "- bar watch /apis", "foo - get /api/v1", "- bar get /api/v1", "admin - get /api/v1", "- admin get /api/v1",
				"prefixed - get /api/v1", "- prefixed get /api/v1",
			},
		},
		{
			"a resource has no subresource",
			Objects{
				ClusterRoles: []*rbacv1.ClusterRole{clusterRole("admin", ruleOf("*", "*", "pods", "", "*"))},
				RoleBindings: []*rbacv1.RoleBinding{bindIn("ns1", "ClusterRole", "admin", "User:admin,Group:admins")},
			},
			[]string{"admin - get pods ns1"},
			[]string{"admin - get pods/status ns1"},
		},
		{
			"subresources",
			Objects{
				ClusterRoles: []*rbacv1.ClusterRole{clusterRole("admin", ruleOf("*", "*", "pods/status", "", ""), ruleOf("*", "*", "*/scale", "", ""))},
				RoleBindings: []*rbacv1.RoleBinding{bindIn("ns1", "ClusterRole", "admin", "User:admin,Group:admins")},
			},
			[]string{"admin - get pods/status ns1", "admin - get pods/scale ns1", "admin - get deployments/scale ns1", "admin - get anything/scale ns1"},
			[]string{"admin - get pods ns1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPolicy(tt.objects)
			for _, text := range tt.allowed {
				if ok, reason := p.Authorize(request(text)); !ok || !strings.HasPrefix(reason, "RBAC: allowed by ") {
					t.Errorf("%s: %v, %q", text, ok, reason)
				}
			}
			for _, text := range tt.denied {
				if ok, _ := p.Authorize(request(text)); ok {
					t.Errorf("%s is allowed", text)
				}
			}
		})
	}
}

// TestRuleMatches has the rows of upstream's TestRuleMatches: which of all requests a rule allows, "VERB GROUP/RESOURCE" or "VERB PATH".
func TestRuleMatches(t *testing.T) {
	var resources, subresources, paths []string
	for _, verb := range []string{"v1", "v2"} {
		for _, resource := range []string{"g1/r1", "g2/r1", "g1/r2", "g2/r2"} {
			resources = append(resources, verb+" "+resource)
			for _, sub := range []string{"s1", "s2"} {
				subresources = append(subresources, verb+" "+resource+"/"+sub)
			}
		}
		for _, path := range []string{"", "/bar", "/baz", "/bar/one", "/baz/one"} {
			paths = append(paths, verb+" /foo"+path, verb+" /notfoo"+path)
		}
	}
	within := func(all []string, parts ...string) []string {
		var out []string
		for _, one := range all {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(one, part) }) {
				out = append(out, one)
			}
		}
		return out
	}
	for _, tt := range []struct {
		name string
		rule rbacv1.PolicyRule
		all  []string
		want []string
	}{
		{"star verb", ruleOf("*", "g1", "r1", "", ""), resources, within(resources, " g1/r1")},
		{"star group", ruleOf("v1", "*", "r1", "", ""), resources, within(resources, "v1 ", "/r1")},
		{"star resource", ruleOf("v1", "g1", "*", "", ""), resources, within(resources, "v1 g1/")},
		{"all combinations", ruleOf("v1,v2", "g1,g2", "r1,r2", "", ""), resources, resources},
		{"subresource", ruleOf("*", "*", "r1/s1", "", ""), subresources, within(subresources, "r1/s1")},
		{"subresource of any", ruleOf("*", "*", "*/s2", "", ""), subresources, within(subresources, "/s2")},
		{"star resource, of subresources", ruleOf("*", "*", "*", "", ""), subresources, subresources},
		{"star path", ruleOf("v1", "", "", "", "*"), paths, within(paths, "v1 ")},
		{"paths below", ruleOf("v1", "", "", "", "/foo/*"), paths, within(paths, "v1 ", " /foo/")},
		{"star verb, of paths", ruleOf("*", "", "", "", "/foo,/foo/bar/one"), paths, []string{"v1 /foo", "v1 /foo/bar/one", "v2 /foo", "v2 /foo/bar/one"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, text := range tt.all {
				verb, what, _ := strings.Cut(text, " ")
				a := Attributes{User: userOf("u", ""), Verb: verb}
				if strings.HasPrefix(what, "/") {
					a.Path = what
				} else {
					parts := append(strings.Split(what, "/"), "")
					a.Group, a.Resource, a.Subresource = parts[0], parts[1], parts[2]
				}
				if RulesAllow([]rbacv1.PolicyRule{tt.rule}, a) {
					got = append(got, text)
				}
			}
			testcheck.Equal(t, "allowed", tt.want, got)
		})
	}
}

// TestCompact has the rows of upstream's TestCompactRules: rules for one resource of one group are merged, others stay.
func TestCompact(t *testing.T) {
	nameless := ruleOf("patch", "x", "sets", "", "")
	nameless.ResourceNames = []string{""}
	for _, tt := range []struct {
		name        string
		rules, want []rbacv1.PolicyRule
	}{
		{"none", nil, nil},
		{
			"simple",
			[]rbacv1.PolicyRule{
				ruleOf("get", "", "builds", "", ""), ruleOf("list", "", "builds", "", ""), ruleOf("update,patch", "", "builds", "", ""),
				ruleOf("create", "x", "sets", "", ""), ruleOf("delete", "x", "sets", "", ""), nameless,
				ruleOf("get", "x", "sets", "foo", ""), ruleOf("list", "x", "sets", "foo", ""), ruleOf("educate", "", "dolphins", "", ""),
				ruleOf("", "", "pirates", "", ""), ruleOf("", "", "pods", "", ""), ruleOf("create", "", "pods", "", ""),
			},
			[]rbacv1.PolicyRule{
				ruleOf("create,delete", "x", "sets", "", ""), nameless, ruleOf("get,list", "x", "sets", "foo", ""),
				ruleOf("get,list,update,patch", "", "builds", "", ""), ruleOf("educate", "", "dolphins", "", ""), ruleOf("", "", "pirates", "", ""),
				ruleOf("create", "", "pods", "", ""),
			},
		},
		{"groups", []rbacv1.PolicyRule{ruleOf("get", ",x", "builds", "", ""), ruleOf("list", ",x", "builds", "", "")}, nil},
		{"resources", []rbacv1.PolicyRule{ruleOf("get", "", "builds,images", "", ""), ruleOf("list", "", "builds,images", "", "")}, nil},
		{"names", []rbacv1.PolicyRule{ruleOf("get", "", "builds", "a", ""), ruleOf("list", "", "builds", "b", "")}, nil},
		{"paths", []rbacv1.PolicyRule{ruleOf("get", "", "builds", "", "/"), ruleOf("get", "", "builds", "", "/foo")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == nil {
				tt.want = tt.rules
			}
			before := make([]rbacv1.PolicyRule, len(tt.rules))
			for i := range tt.rules {
				tt.rules[i].DeepCopyInto(&before[i])
			}
			got := describeAll(compact(tt.rules))
			testcheck.Equal(t, "rules", describeAll(tt.want), got)
			testcheck.Equal(t, "the argument", describeAll(before), describeAll(tt.rules))
		})
	}
}

// describeAll returns rules as text, sorted.
func describeAll(rules []rbacv1.PolicyRule) []string {
	out := []string{}
	for _, r := range rules {
		out = append(out, describe(r))
	}
	slices.Sort(out)
	return out
}
