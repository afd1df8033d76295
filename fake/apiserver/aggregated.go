package apiserver

import (
	"net/http"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// aggregatedForm returns the form of the aggregated discovery document. ok is false if the client
// does not prefer it.
func (r *request) aggregatedForm() (form, bool) {
	want := apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")
	f, ok := r.form(func(media string, convert *schema.GroupVersionKind) bool {
		return convert == nil || *convert == want && media != mediaYAML
	})
	return f, ok && f.convert != nil
}

// aggregated answers with the discovery document of the core group, or of all other groups.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.
func (r *request) aggregated(f form, core bool) answer {
	list := &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{}}
	list.SetGroupVersionKind(*f.convert)
	for _, g := range r.h.groups() {
		if core == (g.name == "") {
			list.Items = append(list.Items, g.aggregate())
		}
	}
	tagged, err := r.h.codecs.encode(form{media: mediaJSON}, list)
	if err != nil {
		return r.errorAnswer(err)
	}
	a, err := r.encodedAnswer(http.StatusOK, f, list)
	if err != nil {
		return r.errorAnswer(err)
	}
	a.header.Set("Content-Type", f.media+";g="+f.convert.Group+";v="+f.convert.Version+";as="+f.convert.Kind)
	a.header.Set("Cache-Control", "public")
	return r.addETag(a, tagged)
}

func (g group) aggregate() apidiscoveryv2.APIGroupDiscovery {
	out := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	for _, v := range g.versions {
		one := apidiscoveryv2.APIVersionDiscovery{Version: v.name, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		for _, d := range v.resources {
			scope := apidiscoveryv2.ScopeCluster
			if d.Namespaced {
				scope = apidiscoveryv2.ScopeNamespace
			}
			resource := apidiscoveryv2.APIResourceDiscovery{
				Resource: d.Name, ResponseKind: g.responseKind(v, d.APIResource), Scope: scope,
				SingularResource: d.SingularName,
				Verbs:            d.Verbs, ShortNames: d.ShortNames, Categories: d.Categories,
			}
			for _, sub := range d.Subresources {
				_, name, _ := strings.Cut(sub.Name, "/")
				resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{
					Subresource: name, ResponseKind: g.responseKind(v, sub), Verbs: sub.Verbs,
				})
			}
			one.Resources = append(one.Resources, resource)
		}
		out.Versions = append(out.Versions, one)
	}
	return out
}

// responseKind returns the kind that a resource answers with. Group and version are omitted where
// they equal the resource's.
func (g group) responseKind(v version, d metav1.APIResource) *metav1.GroupVersionKind {
	out := &metav1.GroupVersionKind{Group: d.Group, Version: d.Version, Kind: d.Kind}
	if d.Group == g.name && d.Version == v.name {
		out.Group, out.Version = "", ""
	}
	return out
}
