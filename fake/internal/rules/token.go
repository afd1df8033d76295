package rules

import "k8s.io/apimachinery/pkg/util/validation/field"

// TokenSecondsDefault is the lifetime of a service account token if a request has none.
const TokenSecondsDefault = 60 * 60

// The limits of the lifetime of a service account token.
const (
	tokenSecondsMin = 10 * 60
	tokenSecondsMax = 1 << 32
)

// ValidateTokenSeconds validates the lifetime of a service account token.
func ValidateTokenSeconds(seconds int64, path *field.Path) field.ErrorList {
	switch {
	case seconds < tokenSecondsMin:
		return field.ErrorList{field.Invalid(path, seconds, "may not specify a duration less than 10 minutes")}
	case seconds > tokenSecondsMax:
		return field.ErrorList{field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}
