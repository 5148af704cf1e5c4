-- Run once by the image of PostgreSQL, as its superuser. alma's role is not a superuser, so row-level security applies.
\getenv password ALMA_DB_PASSWORD
CREATE ROLE alma LOGIN PASSWORD :'password';
CREATE DATABASE alma OWNER alma;
\connect alma
CREATE EXTENSION IF NOT EXISTS vector;
