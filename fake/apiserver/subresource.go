package apiserver

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
)

// connectSubresources lead to the process of a pod, or to what a node or a service serves. They are
// refused, except for what kubelets answer; see proxyKubelet, podLog and podStream.
var connectSubresources = map[string][]string{
	"pods":     {"attach", "exec", "log", "portforward", "proxy"},
	"services": {"proxy"},
	"nodes":    {"proxy"},
}

// subresource carries out a request for a subresource.
func (v *resourceRequest) subresource(verb string) (answer, error) {
	i := slices.IndexFunc(v.apiResource.Subresources,
		func(s metav1.APIResource) bool { return s.Name == v.Resource+"/"+v.sub })
	if i < 0 {
		return v.connect()
	}
	described := v.apiResource.Subresources[i]
	if !allows(described.Verbs, verb) {
		return answer{}, errMethod()
	}
	if verb == "create" {
		return v.createSubresource(described)
	}
	client, sub := v.client, []string{v.sub}
	if v.sub == "scale" {
		client, _ = v.client.Scale()
		sub = nil
	}
	switch verb {
	case "get":
		return v.get(client)
	case "update":
		return v.update(client, sub...)
	default:
		return v.patch(client, sub...)
	}
}

// connect answers a request for the log of a pod or for a connection with a command in it, if the server has kubelets. It
// refuses any other connection to an existing pod, node or service, and any unknown subresource.
//
// Differs: there is no portforward, and the only proxy is that of nodes.
func (v *resourceRequest) connect() (answer, error) {
	if v.Group == "" && v.Resource == "pods" && v.h.hasKubelets() {
		switch v.sub {
		case "log":
			return v.podLog()
		case "exec", "attach":
			return v.podStream()
		}
	}
	if v.Group != "" || !slices.Contains(connectSubresources[v.Resource], v.sub) {
		return v.notFound(v.target)
	}
	if _, err := v.client.Get(v.Context(), v.name, metav1.GetOptions{}); err != nil {
		return answer{}, err
	}
	verb := "connect"
	if v.sub == "log" {
		verb = "get"
	}
	return answer{}, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: v.Resource + "/" + v.sub}, verb)
}

// createSubresource carries out a POST to a subresource, whose body describes the action.
func (v *resourceRequest) createSubresource(described metav1.APIResource) (answer, error) {
	obj, opts, err := v.readAction(schema.GroupVersionKind{
		Group: described.Group, Version: described.Version, Kind: described.Kind,
	})
	if err != nil {
		return answer{}, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	if err := v.setNamespace(m); err != nil {
		return answer{}, err
	}
	if m.GetName() != v.name && described.Kind != "TokenRequest" {
		return answer{}, apierrors.NewBadRequest("name in URL does not match name in " + described.Kind + " object")
	}
	return v.actionAnswer(v.client.CreateSubresource(v.Context(), v.name, v.sub, obj, opts))
}

// actionAnswer answers with the result of an action. A result other than a Status is converted as
// negotiated.
func (v *resourceRequest) actionAnswer(out runtime.Object, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	if m, ok := out.(metav1.Object); ok && v.form.convert != nil {
		if v.form.convert.Kind == "PartialObjectMetadataList" {
			return answer{}, notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (*%s.%s)",
				internalPackage(v.Group), v.h.codecs.kindOf(out).Kind)
		}
		meta := meta.AsPartialObjectMetadata(m)
		meta.SetGroupVersionKind(v.form.convert.GroupVersion().WithKind("PartialObjectMetadata"))
		return v.encodedAnswer(http.StatusCreated, v.form, meta)
	}
	return v.encodedAnswer(http.StatusCreated, v.unconvertedForm(), withKind(out, v.h.codecs.kindOf(out)))
}

// readAction reads the body and the options of an action. An eviction may be of an older version.
func (v *resourceRequest) readAction(gvk schema.GroupVersionKind) (runtime.Object, metav1.CreateOptions, error) {
	media, body, err := v.input()
	if err != nil {
		return nil, metav1.CreateOptions{}, err
	}
	opts, err := v.createOptions()
	if err != nil {
		return nil, opts, err
	}
	into, err := v.h.codecs.empty(gvk)
	if err != nil {
		return nil, opts, err
	}
	obj, err := v.decodeObject(media, body, into, gvk, opts.FieldValidation)
	if err != nil {
		return nil, opts, err
	}
	v.recordAction(obj)
	if e, ok := obj.(*policyv1beta1.Eviction); ok && gvk.Kind == "Eviction" {
		return &policyv1.Eviction{ObjectMeta: e.ObjectMeta, DeleteOptions: e.DeleteOptions}, opts, nil
	}
	if obj != into {
		return nil, opts, versionError(v.versionOf(obj), gvk.GroupVersion())
	}
	return obj, opts, nil
}

// bindings answers a POST of a binding to the pod's namespace.
func (r *request) bindings(client *fake.Clientset, t target) (answer, error) {
	pods, ok := client.Resource(corev1.SchemeGroupVersion.WithResource("pods"), t.namespace)
	switch {
	case !ok || t.Version != "v1" || t.name != "":
		return r.notFound(t)
	case t.watch || t.namespace == "" || r.Method != http.MethodPost:
		return answer{}, errMethod()
	}
	v := &resourceRequest{request: r, target: t, client: pods}
	if err := v.negotiate(); err != nil {
		return answer{}, err
	}
	obj, opts, err := v.readAction(corev1.SchemeGroupVersion.WithKind("Binding"))
	if err != nil {
		return answer{}, err
	}
	binding := obj.(*corev1.Binding)
	if err := v.setNamespace(binding); err != nil {
		return answer{}, err
	}
	return v.actionAnswer(pods.CreateSubresource(v.Context(), binding.Name, "binding", binding, opts))
}
