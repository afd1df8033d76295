package fake

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Client-go's own clientset is below each Clientset. So a Clientset has all methods of the version
// of client-go that it is built with, and discovery is client-go's. The clientset's requests do not
// leave the process. It answers discovery requests, and 404 to all others.

const notFoundMsg = "the server could not find the requested resource"

// notFound returns the error about a resource that the server lacks.
func notFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: notFoundMsg, Details: &metav1.StatusDetails{},
	}}
}

// unservedConfig is the configuration of the clients over a transport.
var unservedConfig = &rest.Config{Host: "http://fake.invalid", QPS: -1}

// unservedClient returns client-go's clientset that answers notFound to everything. It is created
// once.
var unservedClient = sync.OnceValue(func() *kubernetes.Clientset {
	c, err := kubernetes.NewForConfigAndClient(unservedConfig, &http.Client{Transport: transport{}})
	if err != nil {
		panic(err) // the config is a constant
	}
	return c
})

// unservedClient returns client-go's clientset with discovery of the server.
func (s *Server) unservedClient() *kubernetes.Clientset {
	c := *unservedClient()
	client, err := rest.NewRESTClient(&discoveryURL, "", discoveryContent, nil, &http.Client{Transport: transport{s}})
	if err != nil {
		panic(err) // the parameters are constants
	}
	c.DiscoveryClient = discovery.NewDiscoveryClient(client)
	return &c
}

// The configuration of discovery clients. A world has one, so it is not derived from a rest.Config
// each time.
var (
	discoveryURL     = url.URL{Scheme: "http", Host: "fake.invalid"}
	discoveryContent = rest.ClientContentConfig{
		ContentType: runtime.ContentTypeJSON,
		Negotiator: runtime.NewClientNegotiator(serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{
			Serializer: runtime.NoopEncoder{Decoder: clientscheme.Codecs.UniversalDecoder()},
		}), schema.GroupVersion{}),
	}
)

// transport answers discovery requests to a server without I/O, and notFound to others. Without a
// server it answers notFound to everything.
//
// Differs: OpenAPI is answered with 404. Discovery requests are not traced.
type transport struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	var document any
	if t.server != nil && req.Method == http.MethodGet {
		document = t.server.discover(strings.Split(strings.Trim(req.URL.Path, "/"), "/"))
	}
	code := http.StatusOK
	if document == nil {
		status := notFound().(apierrors.APIStatus).Status()
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		document, code = status, http.StatusNotFound
	}
	body, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}, nil
}

// discover returns the discovery document of a path, or nil.
func (s *Server) discover(path []string) any {
	switch path[0] {
	case "version":
		return s.Version()
	case "api":
		if len(path) == 1 {
			return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
		}
		path = slices.Insert(path, 1, "")
	case "apis":
		if len(path) == 1 {
			groups, _ := s.served()
			groups = slices.DeleteFunc(groups, func(g metav1.APIGroup) bool { return g.Name == "" })
			return metav1.APIGroupList{
				TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups,
			}
		}
	default:
		return nil
	}
	if len(path) != 3 {
		return nil
	}
	_, lists := s.served()
	if list, ok := lists[schema.GroupVersion{Group: path[1], Version: path[2]}]; ok {
		return list
	}
	return nil
}

// served returns the groups, and the resources of each of their versions by name.
func (s *Server) served() ([]metav1.APIGroup, map[schema.GroupVersion]*metav1.APIResourceList) {
	var groups []metav1.APIGroup
	lists := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, r := range s.Resources() {
		gv := schema.GroupVersion{Group: r.Group, Version: r.Version}
		list := lists[gv]
		if list == nil {
			list = &metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
			}
			lists[gv] = list
			groups = withVersion(groups, gv)
		}
		list.APIResources = append(append(list.APIResources, r.APIResource), r.Subresources...)
	}
	for i := range groups {
		g := &groups[i]
		slices.SortFunc(g.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
		g.PreferredVersion = g.Versions[0]
	}
	for _, list := range lists {
		slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	}
	return groups, lists
}

// withVersion adds a version to the groups.
func withVersion(groups []metav1.APIGroup, gv schema.GroupVersion) []metav1.APIGroup {
	i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
	if i < 0 {
		i = len(groups)
		groups = append(groups, metav1.APIGroup{Name: gv.Group})
	}
	groups[i].Versions = append(groups[i].Versions,
		metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
	return groups
}

// emulatedVersion is the version of Kubernetes whose behaviour the server has.
var emulatedVersion = version.Info{
	Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "36",
	MinCompatibilityMajor: "1", MinCompatibilityMinor: "35",
	GitVersion: "v1.36.3", GitTreeState: "clean", BuildDate: "1970-01-01T00:00:00Z",
	GoVersion: goruntime.Version(), Compiler: goruntime.Compiler, Platform: goruntime.GOOS + "/" + goruntime.GOARCH,
}

// Version returns what the server says of its own version; see Config.
func (s *Server) Version() version.Info { return *s.version.Load() }

// SetVersion changes what the server says of its own version, as Config.Version does for a new
// server. The behaviour stays that of Kubernetes 1.36.
func (s *Server) SetVersion(v version.Info) { s.version.Store(&v) }

// ServerPreferredNamespacedResources returns the namespaced resources, each in its preferred
// version. It makes no request. The lists have the order of [Server.Resources], and their resources
// that of their names, whereas Discovery, which is client-go's, returns them in no order.
func (c *Clientset) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	c.mustHaveServer()
	preferred := map[schema.GroupResource]string{} // version
	all := c.server.Resources()
	for _, r := range all {
		gr := schema.GroupResource{Group: r.Group, Resource: r.Name}
		if known, ok := preferred[gr]; !ok || version.CompareKubeAwareVersionStrings(r.Version, known) > 0 {
			preferred[gr] = r.Version
		}
	}
	var lists []*metav1.APIResourceList
	for _, r := range all {
		if !r.Namespaced || preferred[schema.GroupResource{Group: r.Group, Resource: r.Name}] != r.Version {
			continue
		}
		gv := schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
		i := slices.IndexFunc(lists, func(l *metav1.APIResourceList) bool { return l.GroupVersion == gv })
		if i < 0 {
			i = len(lists)
			lists = append(lists, &metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv,
			})
		}
		lists[i].APIResources = append(lists[i].APIResources, r.APIResource)
	}
	for _, l := range lists {
		slices.SortFunc(l.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	}
	return lists, nil
}
