// The root of this package. What it needs, of which version, is in `modules`.
module parshall/outside/sarama

go 1.25.0
