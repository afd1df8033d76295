package rbac

import (
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Attributes are what is decided about: a request for a resource, or for a path.
type Attributes struct {
	User        *authenticationv1.UserInfo
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Namespace   string // "": at the cluster scope
	Name        string // "": unknown, or several
	NodeName    string // that the fields of several are selected by; "": not by spec.nodeName
	Path        string // of a request for no resource; "": it is for one
}

// sanitizer escapes text of requests in messages.
var sanitizer = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

// Forbidden returns the error of a refused request.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters ForbiddenStatusError.
func (a Attributes) Forbidden(reason string) error {
	message := sanitizer.Replace(a.refusal())
	if reason != "" {
		message += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(message))
}

func (a Attributes) refusal() string {
	if a.Path != "" {
		return fmt.Sprintf("User %q cannot %s path %q", a.User.Username, a.Verb, a.Path)
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q", a.User.Username, a.Verb, resource, a.Group)
	if a.Namespace == "" {
		return text + " at the cluster scope"
	}
	return fmt.Sprintf("%s in the namespace %q", text, a.Namespace)
}
