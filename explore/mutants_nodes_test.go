package explore_test

// nodeMutants are about attaching and mounting.
var nodeMutants []mutant
