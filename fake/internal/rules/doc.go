// Package rules has the defaults, preparation, validation and warnings of the built-in resources.
//
//	set := rules.PersistentVolumeClaim
//	set.Default(claim)
//	set.PrepareCreate(now, claim, nil)
//	errs := rules.ValidateMeta(&claim.ObjectMeta, true, rules.NameIsDNSSubdomain, false)
//	errs = append(errs, set.ValidateCreate(claim, nil)...)
//
// A [Set] has the functions of one resource. They are pure: their results depend only on their
// arguments, and they change only the object to be written. The write pipeline of package fake
// calls them, and handles everything else: storage, preconditions, admission, subresources.
//
// It does not validate everything; each gap has a line that begins with "Differs:". Error texts are
// upstream's.
//
// Upstream: pkg/apis, the packages validation and v1 (defaults); pkg/registry, the strategies
// (v1.36).
package rules
