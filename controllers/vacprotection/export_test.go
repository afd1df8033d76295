package vacprotection

// Finalizer is finalizer, for external tests.
const Finalizer = finalizer
