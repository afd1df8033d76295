package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/internal/podconnect"
)

// podLog passes a request for the log of a pod to the kubelet of its node. The log of a pod without a node is
// empty.
//
// Differs: a log is not sent by WebSocket.
//
// Upstream: pkg/registry/core/pod/rest LogREST, pkg/registry/core/pod LogLocation (v1.36).
func (v *resourceRequest) podLog() (answer, error) {
	if v.Method != http.MethodGet {
		return answer{}, errMethod()
	}
	opts, err := podconnect.LogOptions(v.query)
	if err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	if errs := podconnect.ValidateLogOptions(opts); len(errs) > 0 {
		return answer{}, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, v.name, errs)
	}
	pod, err := v.podWith(&opts.Container)
	if err != nil {
		return answer{}, err
	}
	if pod.Spec.NodeName == "" {
		return answer{code: http.StatusNoContent, header: http.Header{"Cache-Control": {"no-cache, private"}}}, nil
	}
	path := "/containerLogs/" + pod.Namespace + "/" + pod.Name + "/" + opts.Container
	return v.pass(pod, url.URL{Path: path, RawQuery: podconnect.LogQuery(opts).Encode()})
}

// podStream passes a request to execute a command in a pod, or to attach to that of a container, to the kubelet of its node.
//
// Differs: admission does not see it.
//
// Upstream: pkg/registry/core/pod/rest ExecREST, AttachREST, pkg/registry/core/pod streamLocation (v1.36).
func (v *resourceRequest) podStream() (answer, error) {
	if v.Method != http.MethodGet && v.Method != http.MethodPost {
		return answer{}, errMethod()
	}
	if v.query.Has("dryRun") {
		return answer{}, apierrors.NewBadRequest("dryRun is not supported")
	}
	opts, err := podconnect.ExecOptions(v.query)
	if err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	if v.sub == "attach" {
		opts.Command = nil
	}
	if err := v.authorizeCreate(); err != nil {
		return answer{}, err
	}
	pod, err := v.podWith(&opts.Container)
	switch {
	case err != nil:
		return answer{}, err
	case pod.Spec.NodeName == "":
		return answer{}, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", v.name))
	case !isUpgrade(v.Request):
		return answer{}, apierrors.NewBadRequest("Upgrade request required")
	}
	path := "/" + v.sub + "/" + pod.Namespace + "/" + pod.Name + "/" + opts.Container
	return v.pass(pod, url.URL{Path: path, RawQuery: podconnect.ExecQuery(opts).Encode()})
}

// authorizeCreate checks that the user may create the subresource, although a WebSocket begins with a GET.
//
// Upstream: pkg/registry/core/pod/rest ensureAuthorizedForVerb (v1.36).
func (v *resourceRequest) authorizeCreate() error {
	asked := v.asked(splitPath(v.URL.Path))
	if asked.ResourceAttributes.Verb == "create" {
		return nil
	}
	asked.ResourceAttributes.Verb = "create"
	if allowed, reason := v.request.client().Decide(asked); !allowed {
		return apierrors.NewForbidden(schema.GroupResource{Group: v.Group, Resource: v.Resource}, v.name, errors.New(reason))
	}
	return nil
}

// isUpgrade reports whether a request asks for another protocol.
//
// Upstream: k8s.io/streaming/pkg/httpstream IsUpgradeRequest.
func isUpgrade(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Connection"), func(value string) bool {
		return strings.Contains(strings.ToLower(value), "upgrade")
	})
}

// podWith returns the pod of a request, and sets an empty name of a container to that of its only one.
func (v *resourceRequest) podWith(container *string) (*corev1.Pod, error) {
	pods, _ := v.h.client(v.Request).Resource(corev1.SchemeGroupVersion.WithResource("pods"), v.namespace)
	found, err := pods.Get(v.Context(), v.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod := found.(*corev1.Pod)
	*container, err = containerOf(pod, *container)
	return pod, err
}

// containerOf returns the name of a container of a pod. wanted may be empty if there is only one.
//
// Upstream: pkg/registry/core/pod validateContainer (v1.36).
func containerOf(pod *corev1.Pod, wanted string) (string, error) {
	const unnamedText = "a container name must be specified for pod %s"
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	switch {
	case wanted != "" && slices.Contains(names, wanted):
		return wanted, nil
	case wanted != "":
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", wanted, pod.Name))
	case len(pod.Spec.Containers) == 1:
		return pod.Spec.Containers[0].Name, nil
	case len(pod.Spec.Containers) == 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf(unnamedText, pod.Name))
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf(unnamedText+", choose one of: %s", pod.Name, names))
}

// pass answers by the kubelet of a pod's node.
func (v *resourceRequest) pass(pod *corev1.Pod, to url.URL) (answer, error) {
	nodes, _ := v.h.client(v.Request).Resource(corev1.SchemeGroupVersion.WithResource("nodes"), "")
	if _, err := nodes.Get(v.Context(), pod.Spec.NodeName, metav1.GetOptions{}); err != nil {
		return answer{}, err
	}
	kubelet, _ := v.h.server.Kubelet(pod.Spec.NodeName)
	if kubelet == nil {
		return answer{}, fmt.Errorf("error dialing backend: kubelet of %s: connection refused", pod.Spec.NodeName)
	}
	asked := v.Clone(v.Context())
	asked.URL, asked.RequestURI = &to, to.RequestURI()
	asked.Header.Del("Authorization") // the kubelet trusts the server
	return answer{header: http.Header{"Cache-Control": {"no-cache, private"}}, passed: &passed{
		request: v.request, asked: asked, kubelet: kubelet, log: v.sub == "log",
	}}, nil
}
