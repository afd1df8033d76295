package v1

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/volsim/volsim/test/kubebuilder/api/v1"
)

func database(name, storage string) *appsv1.Database {
	return &appsv1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       appsv1.DatabaseSpec{Storage: resource.MustParse(storage)},
	}
}

var _ = Describe("Database Webhook", func() {
	It("sets defaults", func() {
		db := database("defaulted", "1500Mi")
		Expect(k8sClient.Create(ctx, db)).To(Succeed())
		Expect(db.Spec.Storage.String()).To(Equal("2Gi"))
	})

	It("sees the object before a change and after it", func() {
		db := database("changed", "2Gi")
		Expect(k8sClient.Create(ctx, db)).To(Succeed())
		db.Spec.Storage = resource.MustParse("1Gi")
		Expect(k8sClient.Update(ctx, db)).To(MatchError(
			`admission webhook "vdatabase-v1.kb.io" denied the request: storage cannot shrink from 2Gi to 1Gi`))
		patch := []byte(`{"spec":{"storage":"2100Mi"}}`)
		Expect(k8sClient.Patch(ctx, db, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
		Expect(db.Spec.Storage.String()).To(Equal("3Gi"))
	})

	It("refuses a deletion", func() {
		db := database("kept", "1Gi")
		db.Labels = map[string]string{"protected": "true"}
		Expect(k8sClient.Create(ctx, db)).To(Succeed())
		Expect(k8sClient.Delete(ctx, db)).To(MatchError(
			`admission webhook "vdatabase-v1.kb.io" denied the request: remove the label protected first`))
		db.Labels = nil
		Expect(k8sClient.Update(ctx, db)).To(Succeed())
		Expect(k8sClient.Delete(ctx, db)).To(Succeed())
	})

	It("warns", func() {
		var warnings warningList
		config := rest.CopyConfig(cfg)
		config.WarningHandler = &warnings
		c, err := client.New(config, client.Options{Scheme: k8sClient.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		db := database("warned", "1Gi")
		db.Spec.Replicas = ptr.To[int32](0)
		Expect(c.Create(ctx, db, client.DryRunAll)).To(Succeed())
		Expect(warnings).To(ConsistOf("it has no replicas"))
	})
})

// A warningList has the warnings of requests.
type warningList []string

func (l *warningList) HandleWarningHeader(_ int, _, text string) { *l = append(*l, text) }
