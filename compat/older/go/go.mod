// The root of these packages. What they need, of which versions, is in `modules`.
module parshall/older

go 1.25.0
