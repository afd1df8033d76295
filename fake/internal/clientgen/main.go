// Command clientgen writes the typed clients of package fake, from the resources that the fake API
// server serves and from the interfaces of client-go.
//
// It is run by go generate in folder fake, and writes typedclients.go there.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/format"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
)

//go:embed typedclients.tmpl
var source string

// groups are the methods of kubernetes.Interface that return a client of a group with built-in
// resources, in the order of the file.
var groups = []string{
	"CoreV1", "StorageV1", "AppsV1", "BatchV1", "AutoscalingV2", "AutoscalingV1", "NetworkingV1", "AdmissionregistrationV1",
	"AdmissionregistrationV1beta1",
	"CoordinationV1", "RbacV1", "PolicyV1", "SchedulingV1", "ResourceV1", "EventsV1",
	"DiscoveryV1", "NodeV1", "FlowcontrolV1",
}

// expanded are the types of package fake with further methods, by method of the group's client.
// Each embeds the resource's client; the scalable ones also embed the client of its scale.
var expanded = map[string]string{
	"CoreV1.Namespaces":      "namespaces",
	"CoreV1.Nodes":           "nodes",
	"CoreV1.Pods":            "pods",
	"CoreV1.Events":          "events",
	"CoreV1.ServiceAccounts": "serviceAccounts",
	"CoreV1.Services":        "services",

	"CoreV1.ReplicationControllers": "replicationControllers",
	"AppsV1.StatefulSets":           "statefulSets",
	"AppsV1.Deployments":            "deployments",
	"AppsV1.ReplicaSets":            "replicaSets",
}

// kept are the fields of a Clientset that keep the client of a group, by method. The others are made
// at each call.
var kept = map[string]string{"CoreV1": "core", "StorageV1": "storage"}

// A group is the client of one API group in one version.
type group struct {
	Method    string // of kubernetes.Interface
	Type      string // of package fake
	Group     string // "" is the core group
	Interface string // of client-go
	Kept      string // field of the Clientset; "": none
	Resources []resource
}

// A resource is the client of one resource.
type resource struct {
	Method     string // of the group's client
	Interface  string // of client-go
	ID         string // of the resource in package fake
	Namespaced bool

	Object, List, Apply string // types

	Expanded string // type of package fake with further methods; "": none
	Scalable bool
}

func main() {
	text, err := generate()
	if err == nil {
		err = os.WriteFile("typedclients.go", text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clientgen:", err)
		os.Exit(1)
	}
}

// generate returns the text of typedclients.go.
func generate() ([]byte, error) {
	served := fake.NewServer(fake.Config{Now: func() time.Time { return time.Time{} }}).Resources()
	imports := importSet{}
	var all []group
	for _, name := range groups {
		method, ok := reflect.TypeFor[kubernetes.Interface]().MethodByName(name)
		if !ok {
			return nil, fmt.Errorf("kubernetes.Interface has no method %q", name)
		}
		all = append(all, newGroup(name, method.Type.Out(0), served, imports))
	}
	tmpl, err := template.New("typedclients.go").Parse(source)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := tmpl.Execute(&out, map[string]any{"Imports": imports.sorted(), "Groups": all}); err != nil {
		return nil, err
	}
	return format.Source(out.Bytes())
}

// newGroup describes the client of a group. It has the resources that are served and that have a
// list; the others are created only.
func newGroup(method string, client reflect.Type, served []fake.APIResource, imports importSet) group {
	g := group{
		Method: method, Type: strings.ToLower(method[:1]) + method[1:], Interface: imports.name(client, "typed"),
		Kept: kept[method],
	}
	for _, r := range served {
		if r.Custom != nil || !slices.Contains(r.Verbs, "list") {
			continue
		}
		for i := range client.NumMethod() {
			m := client.Method(i)
			if !strings.EqualFold(m.Name, r.Name) || path.Base(client.PkgPath()) != r.Version {
				continue
			}
			of := m.Type.Out(0)
			object := result(of, "Get")
			if r.Kind != object.Elem().Name() || apiGroup(object) != groupFolder(r.Group) {
				continue
			}
			g.Group = r.Group
			g.Resources = append(g.Resources, newResource(g, m.Name, of, r, imports))
		}
	}
	return g
}

func newResource(g group, method string, client reflect.Type, served fake.APIResource, imports importSet) resource {
	apply, _ := client.MethodByName("Apply")
	_, scalable := client.MethodByName("GetScale")
	id := served.Name
	if served.Group == "events.k8s.io" {
		id += "." + served.Group // the core group's events have the short name
	}
	if served.Group == "autoscaling" && served.Version == "v1" {
		id += ".v1.autoscaling" // version 2 has the short name
	}
	if served.Group == "admissionregistration.k8s.io" && served.Version == "v1beta1" {
		id += ".v1beta1." + served.Group // version 1 has the short name
	}
	return resource{
		Method: method, Interface: imports.name(client, "typed"), ID: id,
		Namespaced: served.Namespaced,
		Object:     "*" + imports.name(result(client, "Get").Elem(), ""),
		List:       "*" + imports.name(result(client, "List").Elem(), ""),
		Apply:      "*" + imports.name(apply.Type.In(1).Elem(), "apply"),
		Expanded:   expanded[g.Method+"."+method], Scalable: scalable,
	}
}

// result returns the type of the first result of a method.
func result(client reflect.Type, method string) reflect.Type {
	m, ok := client.MethodByName(method)
	if !ok {
		panic(fmt.Sprintf("%s has no method %s", client, method))
	}
	return m.Type.Out(0)
}

// apiGroup returns the folder in k8s.io/api of the group of an object's type.
func apiGroup(object reflect.Type) string { return path.Base(path.Dir(object.Elem().PkgPath())) }

// groupFolder returns the folder in k8s.io/api of a group, such as "storage" of "storage.k8s.io".
func groupFolder(group string) string {
	if group == "" {
		return "core"
	}
	folder, _, _ := strings.Cut(group, ".")
	return folder
}

// An importSet has the imported packages: paths by name.
type importSet map[string]string

// name returns a type's qualified name, and imports its package under a name that ends in group and
// version.
func (s importSet) name(t reflect.Type, prefix string) string {
	p := t.PkgPath()
	name := prefix + path.Base(path.Dir(p)) + path.Base(p)
	s[name] = p
	return name + "." + t.Name()
}

// sorted returns the import lines in order of path.
func (s importSet) sorted() []string {
	var lines []string
	for name, p := range s {
		lines = append(lines, fmt.Sprintf("%s %q", name, p))
	}
	slices.SortFunc(lines, func(a, b string) int {
		return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):])
	})
	return lines
}
