package fake_test

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Groups that the server lacks, and missing kinds of other groups, answer 404.
func TestUnservedResourcesAnswerNotFound(t *testing.T) {
	_, clientset := newServer(t)
	var c kubernetes.Interface = clientset
	ctx := t.Context()
	_, errGroup := c.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
	_, errKind := c.ResourceV1().ResourceClaimTemplates("default").Create(ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
	}, metav1.CreateOptions{})
	_, errGet := c.NetworkingV1().ServiceCIDRs().Get(ctx, "x", metav1.GetOptions{})
	_, errWatch := c.CoreV1().ComponentStatuses().Watch(ctx, metav1.ListOptions{})
	errRaw := c.CoreV1().RESTClient().Get().AbsPath("/api/v1/pods").Do(ctx).Error()
	_, errSchema := c.Discovery().OpenAPISchema()
	for _, err := range []error{errGroup, errKind, errGet, errWatch, errRaw, errSchema} {
		expectError(t, err, apierrors.IsNotFound, "the server could not find the requested resource")
	}
}

// They are rejected as client-go rejects them, with an object that is not nil.
func TestInvalidRequestsAreNotSent(t *testing.T) {
	w := newWorld(t)
	nowhere := w.User.CoreV1().PersistentVolumeClaims("")
	always := func(error) bool { return true }
	got, err := w.claims.Get(w.Context(), "", metav1.GetOptions{})
	expectError(t, err, always, "resource name may not be empty")
	if got == nil {
		t.Error("no object")
	}
	_, err = nowhere.Get(w.Context(), "a", metav1.GetOptions{})
	expectError(t, err, always, "an empty namespace may not be set when a resource name is provided")
	_, err = nowhere.Create(w.Context(), newClaim("a"), metav1.CreateOptions{})
	expectError(t, err, always, "an empty namespace may not be set during creation")
	expectError(t, w.claims.Delete(w.Context(), "", metav1.DeleteOptions{}), always, "resource name may not be empty")
	_, err = w.claims.Get(w.Context(), "a", metav1.GetOptions{ResourceVersion: "99"})
	expectError(t, err, apierrors.IsTimeout, "Too large resource version: 99, current: 4")
}
