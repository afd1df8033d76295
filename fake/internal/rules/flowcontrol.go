package rules

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the rules of flow schemas and priority levels, which have no effect.
//
// Differs: little is validated.
//
// Upstream: pkg/registry/flowcontrol; pkg/apis/flowcontrol/v1 defaults.go, validation.

const (
	precedenceDefault = 1000
	precedenceMax     = 10_000

	sharesDefault      = 30
	handSizeDefault    = 8
	queuesDefault      = 64
	queueLengthDefault = 50
)

func defaultFlowSchema(f *flowcontrolv1.FlowSchema) {
	setIfEmpty(&f.Spec.MatchingPrecedence, precedenceDefault)
	for i := range f.Status.Conditions {
		Truncate(&f.Status.Conditions[i].LastTransitionTime)
	}
}

func prepareFlowSchemaCreate(_ metav1.Time, f, _ *flowcontrolv1.FlowSchema) {
	f.Status, f.Generation = flowcontrolv1.FlowSchemaStatus{}, 1
}

func prepareFlowSchemaUpdate(_ metav1.Time, f, old *flowcontrolv1.FlowSchema) {
	if !equal(&f.Spec, &old.Spec) {
		f.Generation = old.Generation + 1
	}
}

func validateFlowSchema(f, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	var errs field.ErrorList
	path := specPath.Child("matchingPrecedence")
	switch n := f.Spec.MatchingPrecedence; {
	case n <= 0:
		errs = append(errs, field.Invalid(path, n, "must be a positive value"))
	case n > precedenceMax:
		errs = append(errs, field.Invalid(path, n, "must not be greater than 10000"))
	}
	if f.Spec.PriorityLevelConfiguration.Name == "" {
		errs = append(errs, field.Required(specPath.Child("priorityLevelConfiguration", "name"),
			"must reference a priority level"))
	}
	return errs
}

func defaultPriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) {
	if e := p.Spec.Exempt; e != nil {
		setIfNil(&e.NominalConcurrencyShares, 0)
		setIfNil(&e.LendablePercent, 0)
	}
	if l := p.Spec.Limited; l != nil {
		setIfNil(&l.NominalConcurrencyShares, sharesDefault)
		setIfNil(&l.LendablePercent, 0)
		if q := l.LimitResponse.Queuing; q != nil {
			setIfEmpty(&q.HandSize, handSizeDefault)
			setIfEmpty(&q.Queues, queuesDefault)
			setIfEmpty(&q.QueueLengthLimit, queueLengthDefault)
		}
	}
	for i := range p.Status.Conditions {
		Truncate(&p.Status.Conditions[i].LastTransitionTime)
	}
}

func preparePriorityLevelCreate(_ metav1.Time, p, _ *flowcontrolv1.PriorityLevelConfiguration) {
	p.Status, p.Generation = flowcontrolv1.PriorityLevelConfigurationStatus{}, 1
}

func preparePriorityLevelUpdate(_ metav1.Time, p, old *flowcontrolv1.PriorityLevelConfiguration) {
	if !equal(&p.Spec, &old.Spec) {
		p.Generation = old.Generation + 1
	}
}

func validatePriorityLevel(p, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return oneOf(p.Spec.Type, specPath.Child("type"), flowcontrolv1.PriorityLevelEnablementExempt,
		flowcontrolv1.PriorityLevelEnablementLimited)
}
