// Package v1 has the webhooks of kind Database.
package v1

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1 "github.com/volsim/volsim/test/kubebuilder/api/v1"
)

// SetupDatabaseWebhookWithManager registers the webhooks for Database in the manager.
func SetupDatabaseWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &appsv1.Database{}).
		WithValidator(&DatabaseCustomValidator{}).
		WithDefaulter(&DatabaseCustomDefaulter{}).
		Complete()
}

// +kubebuilder:webhook:path=/mutate-apps-example-com-v1-database,mutating=true,failurePolicy=fail,sideEffects=None,groups=apps.example.com,resources=databases,verbs=create;update,versions=v1,name=mdatabase-v1.kb.io,admissionReviewVersions=v1

// DatabaseCustomDefaulter sets the defaults of a Database.
type DatabaseCustomDefaulter struct{}

// Default rounds the size of the claims up to whole gibibytes.
func (d *DatabaseCustomDefaulter) Default(_ context.Context, obj *appsv1.Database) error {
	const gib = 1 << 30
	whole := (obj.Spec.Storage.Value() + gib - 1) / gib
	obj.Spec.Storage = resource.MustParse(fmt.Sprintf("%dGi", whole))
	return nil
}

// +kubebuilder:webhook:path=/validate-apps-example-com-v1-database,mutating=false,failurePolicy=fail,sideEffects=None,groups=apps.example.com,resources=databases,verbs=create;update;delete,versions=v1,name=vdatabase-v1.kb.io,admissionReviewVersions=v1

// DatabaseCustomValidator validates a Database.
type DatabaseCustomValidator struct{}

// ValidateCreate warns about a Database without replicas.
func (v *DatabaseCustomValidator) ValidateCreate(_ context.Context, obj *appsv1.Database) (admission.Warnings, error) {
	if *obj.Spec.Replicas == 0 {
		return admission.Warnings{"it has no replicas"}, nil
	}
	return nil, nil
}

// ValidateUpdate refuses smaller claims.
func (v *DatabaseCustomValidator) ValidateUpdate(_ context.Context, oldObj, newObj *appsv1.Database) (admission.Warnings, error) {
	if newObj.Spec.Storage.Cmp(oldObj.Spec.Storage) < 0 {
		return nil, fmt.Errorf("storage cannot shrink from %v to %v", &oldObj.Spec.Storage, &newObj.Spec.Storage)
	}
	return nil, nil
}

// ValidateDelete refuses the deletion of a Database that is protected by a label.
func (v *DatabaseCustomValidator) ValidateDelete(_ context.Context, obj *appsv1.Database) (admission.Warnings, error) {
	if obj.Labels["protected"] == "true" {
		return nil, fmt.Errorf("remove the label protected first")
	}
	return nil, nil
}
